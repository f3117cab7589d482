#include "parallel/self_communicator.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "parallel/device_timeout.h"
#include "parallel/gather_text.h"
#include "parallel/replica_check.h"
#include "support/message.h"

namespace tandem {
namespace {

class SelfTest : public testing::Test {
 protected:
  static Tensor view(std::vector<float>& values) {
    return Tensor(values.data(), {static_cast<std::int64_t>(values.size())});
  }
  SelfCommunicator self_;
  std::vector<float> input_{1.0F, -2.0F, 3.5F};
  const std::vector<float> expected_ = input_;
};

TEST_F(SelfTest, IsAloneAndRankZero) {
  EXPECT_EQ(self_.rank(), 0);
  EXPECT_EQ(self_.size(), 1);
  EXPECT_EQ(self_.name(), "self");
  self_.barrier();
}

TEST_F(SelfTest, InPlaceCollectivesAreTheIdentity) {
  self_.broadcast(view(input_), 0);
  self_.reduce(view(input_), ReduceOp::max, 0);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    self_.all_reduce(view(input_), op);
    const auto request = self_.all_reduce_async(view(input_), op);
    EXPECT_TRUE(request->test());
    request->wait();
  }
  // Nothing travels, so nothing is rounded.
  input_[1] = 1.0F / 3;
  EXPECT_EQ(self_.bf16_scratch(3), 0);
  self_.all_reduce_bf16_async(view(input_), Tensor())->wait();
  EXPECT_EQ(input_[1], 1.0F / 3);
  input_[1] = expected_[1];
  EXPECT_EQ(input_, expected_);
}

TEST_F(SelfTest, OtherCollectivesCopy) {
  const auto expect_copy = [&](auto&& collective) {
    std::vector<float> output(3);
    collective(view(output));
    EXPECT_EQ(output, expected_);
  };
  expect_copy([&](const Tensor& output) { self_.all_gather(view(input_), output); });
  expect_copy([&](const Tensor& output) { self_.gather(view(input_), output, 0); });
  expect_copy([&](const Tensor& output) { self_.scatter(view(input_), output, 0); });
  expect_copy([&](const Tensor& output) { self_.all_to_all(view(input_), output); });
  expect_copy(
      [&](const Tensor& output) { self_.reduce_scatter(view(input_), output, ReduceOp::sum); });
}

TEST_F(SelfTest, TakesTensorsWithoutElements) {
  const Tensor none(nullptr, {0});
  self_.all_reduce(none, ReduceOp::sum);
  self_.all_gather(none, none);
  self_.all_to_all(none, none);
  EXPECT_TRUE(self_.all_reduce_async(none, ReduceOp::sum)->test());
  EXPECT_EQ(all_gather_text(self_, ""), std::vector<std::string>{""});
}

TEST_F(SelfTest, HasNobodyToSendTo) {
  EXPECT_NE(message_of<Error>([&] { self_.send(view(input_), 0); }).find("named itself"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([&] { self_.recv(view(input_), 1); }).find("no rank 1 among 1"),
            std::string::npos);
}

TEST_F(SelfTest, SplitsIntoItself) {
  const std::unique_ptr<Communicator> part = self_.split(7);
  EXPECT_EQ(part->name(), "self");
  EXPECT_NE(message_of<Error>([&] { self_.split(-1); }).find("the color -1 is below 0"),
            std::string::npos);
}

TEST_F(SelfTest, ChecksItsArguments) {
  std::vector<float> longer(4);
  std::vector<std::int32_t> integers(3);
  const Tensor other_type(integers.data(), {3}, DType::i32);
  const auto expect_error = [](const std::string& part, auto&& action) {
    const std::string message = message_of<Error>(action);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_error("there is no rank 1", [&] { self_.broadcast(view(input_), 1); });
  expect_error("there is no rank -1", [&] { self_.reduce(view(input_), ReduceOp::sum, -1); });
  expect_error("4 elements where 1 ranks times 3",
               [&] { self_.all_gather(view(input_), view(longer)); });
  expect_error("dtypes f32 and i32", [&] { self_.all_gather(view(input_), other_type); });
  expect_error("overlap", [&] { self_.all_to_all(view(input_), view(input_)); });
  expect_error("without memory", [&] { self_.all_reduce(Tensor(), ReduceOp::sum); });
  expect_error("moved, not reduced",
               [&] { self_.all_reduce(Tensor(integers.data(), {3}, DType::f16), ReduceOp::sum); });
}

TEST_F(SelfTest, ChecksOfReplicasPass) {
  EXPECT_NO_THROW(check_same_plan(self_, std::vector<PlanEntry>{{"w", {3}, DType::f32, 0}}));
  AnyContext context(std::in_place_type<CpuContext>, 1);
  const std::vector<ParameterSlice> slices{{"w", 0, 3}};
  EXPECT_NO_THROW(check_replicas(self_, hash_slices(context, view(input_), slices), slices));
  EXPECT_EQ(ranks_text(std::array{4}), "rank 4");
  EXPECT_EQ(ranks_text(std::array{0, 2, 5}), "ranks 0, 2 and 5");
}

TEST_F(SelfTest, WaitsForItsDeviceAsLongAsItIsTold) {
  // Longer than a busy machine keeps it from asking.
  SelfCommunicator patient(2.0);
  int asked = 0;
  patient.wait_until([&] { return ++asked == 1000; }, [] { return std::string("counting"); });
  EXPECT_EQ(asked, 1000);
  // One that runs on another's patience, as a device's communicator does.
  SelfCommunicator second(static_cast<Communicator&>(patient));
  for (Communicator* each :
       {static_cast<Communicator*>(&patient), static_cast<Communicator*>(&second)}) {
    const auto wait = [&] {
      each->wait_until([] { return false; }, [] { return std::string("the step's end"); });
    };
    EXPECT_EQ(message_of<CommunicationTimeout>(wait),
              "waited 2 s in the step's end for this rank's own device");
  }
}

/// A device that is done after so long.
void wait_for(Communicator& communicator, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  communicator.wait_until([end] { return std::chrono::steady_clock::now() >= end; },
                          [] { return std::string("a step"); });
}

TEST_F(SelfTest, WaitsForLongStepsThatAreAlike) {
  SelfCommunicator patient(2.0);
  wait_for(patient, std::chrono::milliseconds(1200));
  // Three times as long, which this busy machine may have made longer than asked for.
  EXPECT_NO_THROW(wait_for(patient, std::chrono::milliseconds(2800)));
}

TEST_F(SelfTest, WaitsNoLongerThanToldOnceStepsWereShort) {
  SelfCommunicator patient(1.0);
  for (int step = 0; step < 15; ++step) wait_for(patient, std::chrono::milliseconds(0));
  EXPECT_THROW(wait_for(patient, std::chrono::seconds(60)), CommunicationTimeout);
}

TEST(DevicePatience, IsBoundedByTheTimeOutAndByTheLongestWait) {
  using Seconds = DevicePatience::Seconds;
  DevicePatience patience(Seconds(20));
  EXPECT_EQ(patience.limit(), Seconds(20));
  patience.waited(Seconds(0.5));
  EXPECT_EQ(patience.limit(), Seconds(20));  // three times 0.5 s are less
  patience.waited(Seconds(19));
  EXPECT_EQ(patience.limit(), Seconds(57));
  patience.waited(Seconds(1));
  EXPECT_EQ(patience.limit(), Seconds(57));  // the longest counts, not the last
  DevicePatience slow(Seconds(20));
  slow.waited(Seconds(90));
  EXPECT_EQ(slow.limit(), Seconds(270));
}

TEST(DeviceTimeout, NamesTheRanksWhoseDevicesAreLate) {
  const CommunicationTimeout error("waited 5 s in the step's end", "though all are there");
  EXPECT_STREQ(device_timeout(error, {1}).what(),
               "waited 5 s in the step's end for rank 1, which gives signs of life, but whose "
               "device does not get that far");
  const CommunicationTimeout several = device_timeout(error, {1, 2});
  EXPECT_STREQ(
      several.what(),
      "waited 5 s in the step's end for ranks 1 and 2, which give signs of life, but whose "
      "devices do not get that far");
  EXPECT_EQ(several.ranks(), (std::vector{1, 2}));
  EXPECT_STREQ(device_timeout(error, {}).what(),
               "waited 5 s in the step's end though all ranks give signs of life: a device hangs, "
               "or they wait for one another in different operations");
}

TEST(NcclStartTimeout, SaysNothingOfDifferentOperations) {
  const CommunicationTimeout error("waited 5 s in starting NCCL (NCCL)", "though all are there", {},
                                   {1});
  const CommunicationTimeout start = nccl_start_timeout(error);
  EXPECT_STREQ(start.what(),
               "waited 5 s in starting NCCL (NCCL) though all ranks give signs of life: it takes "
               "longer here, as on a busy host, a device hangs, or they do not reach each other by "
               "NCCL's ways, of which NCCL_DEBUG=INFO in the environment tells");
  EXPECT_EQ(start.behind(), std::vector{1});
}

}  // namespace
}  // namespace tandem
