#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include "device/cuda_graph.h"
#include "parallel/device_test.h"
#include "parallel/mpi/mpi_communicator.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/placement/device_choice.h"
#include "parallel/silent_rank.h"
#include "parallel/stream_watch.h"
#include "parallel/test_patience.h"

// What is NCCL's alone.

namespace tandem {
namespace {

TEST(NcclCommunicator, IsADeviceKind) {
  EXPECT_EQ(gpus().name(), "nccl");
  EXPECT_FALSE(gpus().is_host());
  EXPECT_EQ(gpus().rank(), hosts().rank());
  EXPECT_EQ(gpus().size(), hosts().size());
}

TEST(NcclCommunicator, TakesABudgetOfBlocks) {
  NcclCommunicator link(hosts(), gpu(), {.max_ctas = 2, .cga_cluster_size = 0});
  const OnGpu<float> values(contributions<float>(gpus().rank(), 100'003));
  link.all_reduce(values.tensor(DType::f32), ReduceOp::sum);
  wait_for_device(link, gpu(), "a sum");
  EXPECT_EQ(values.get(), sums<float>(100'003));
}

TEST(NcclCommunicator, NamesTheSilentRankAndTheBucket) {
  if (gpus().size() == 1) GTEST_SKIP() << "there is no peer";
  const OnGpu<float> values(contributions<float>(gpus().rank(), 1234));
  expect_silent_rank_is_named(
      [](Communicator& group) { return std::make_unique<NcclCommunicator>(group, gpu()); },
      [&](Communicator& link, const char* label) {
        link.all_reduce_async(values.tensor(DType::f32), ReduceOp::sum, label)->wait();
      },
      "(1,234 elements),");
}

/// Begins the sum of a gradient bucket, `captured` in a graph as training's steps are, on all ranks
/// but the last, which ends NCCL while the others are in it. Returns what these are told.
std::string message_where_a_peer_ends_nccl(NcclCommunicator& link, bool captured) {
  const OnGpu<float> values(contributions<float>(link.rank(), 1234));
  const auto reduce = [&](const char* label) {
    link.all_reduce_async(values.tensor(DType::f32), ReduceOp::sum, label)->wait();
  };
  reduce("gradient bucket 1 of 2");  // connects
  wait_for_device(link, gpu(), "a step");
  const bool ends = link.rank() == link.size() - 1;
  std::optional<CudaGraph> graph;
  if (captured) graph.emplace(gpu(), [&] { reduce("gradient bucket 2 of 2"); });
  if (!ends && captured) graph->launch();
  if (!ends && !captured) reduce("gradient bucket 2 of 2");
  hosts().barrier();
  if (ends) {
    link.give_up();
    return {};
  }
  const auto wait = [&] { wait_for_device(link, gpu(), "a step"); };
  const std::string message =
      nccl_uses_sockets() ? message_of<SystemError>(wait) : message_of<CommunicationTimeout>(wait);
  // What hung has ended, so that memory can be freed.
  wait_for_device(hosts(), gpu(), "what was given up");
  EXPECT_NE(message_of<Error>([&] { link.barrier(); }).find("given up"), std::string::npos);
  return message;
}

// Through the network NCCL finds it and says so at once; elsewhere the time-out does.
TEST(NcclCommunicator, NamesTheBucketInWhichAPeerEndsNccl) {
  if (gpus().size() == 1) GTEST_SKIP() << "there is no peer";
  using Clock = std::chrono::steady_clock;
  // Within which NCCL connects the ranks too, which takes seconds on a busy host.
  const double timeout = patient(8.0);
  const int last = gpus().size() - 1;
  const std::string place =
      " a step, last in all_reduce of gradient bucket 2 of 2 (1,234 elements), ";
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured ? "in a graph" : "as it is");
    MpiCommunicator group({.timeout_seconds = timeout});
    const Clock::time_point start = Clock::now();
    try {
      NcclCommunicator link(group, gpu());
      const std::string message = message_where_a_peer_ends_nccl(link, captured);
      if (link.rank() != last && nccl_uses_sockets()) {
        EXPECT_EQ(message.rfind("NCCL failed: ", 0), 0U) << message;
        EXPECT_NE(message.find(" in" + place), std::string::npos) << message;
        EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      } else if (link.rank() != last) {
        EXPECT_EQ(message, fmt::format("waited {:g} s in{}for rank {}, which gives no sign of life",
                                       timeout, place, last));
      }
      throw std::runtime_error("the others are gone");  // as an error would unwind it
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the others are gone");
    }
    EXPECT_LT(Clock::now() - start, std::chrono::duration<double>(4.0 * timeout));
    hosts().barrier();
  }
}

TEST(NcclCommunicator, RefusesRanksThatShareAGpu) {
  const std::string message = message_of<InputError>([] {
    check_one_rank_per_device(
        RankTopology({{"a", "a", gpu().device().uuid}, {"a", "a", gpu().device().uuid}}, 0));
  });
  EXPECT_EQ(message, "ranks 0 and 1 share " + gpu().device().uuid +
                         "; start one rank per GPU (mpirun -n 1)");
}

}  // namespace
}  // namespace tandem
