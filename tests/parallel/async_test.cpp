#include <cmath>

#include "base/philox.h"
#include "parallel/mpi_test.h"

namespace tandem {
namespace {

/// Values whose sum depends on its order in the last bits.
std::vector<float> awkward_values(int rank, std::size_t count) {
  RandomStream random(17, static_cast<std::uint64_t>(rank));
  std::vector<float> values(count);
  for (float& value : values) value = random.normal() * std::exp(4.0F * random.normal());
  return values;
}

void expect_same_bits(const std::vector<float>& values) {
  expect_same_everywhere(
      {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
}

void expect_near_sum(const std::vector<float>& values) {
  std::vector<double> sum(values.size());
  std::vector<double> scale(values.size());
  for (int rank = 0; rank < world().size(); ++rank) {
    const std::vector<float> theirs = awkward_values(rank, values.size());
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      sum[i] += static_cast<double>(theirs[i]);
      scale[i] += std::abs(static_cast<double>(theirs[i]));
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // At most one rounding for each rank that is added.
    const double roundings = world().size() - 1;
    ASSERT_NEAR(static_cast<double>(values[i]), sum[i], roundings * 6e-8 * scale[i]) << i;
  }
}

TEST(AllReduce, LeavesTheSameBitsOnEveryRank) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{1023},
                                  std::size_t{40'000}, std::size_t{300'001}}) {
    SCOPED_TRACE(count);
    std::vector<float> blocking = awkward_values(world().rank(), count);
    world().all_reduce(view(blocking), ReduceOp::sum);
    expect_same_bits(blocking);
    expect_near_sum(blocking);

    std::vector<float> overlapped = awkward_values(world().rank(), count);
    world().all_reduce_async(view(overlapped), ReduceOp::sum)->wait();
    expect_same_bits(overlapped);
    expect_near_sum(overlapped);
  }
}

TEST(AllReduce, RepeatsItselfToTheBit) {
  std::vector<float> first = awkward_values(world().rank(), 70'001);
  world().all_reduce_async(view(first), ReduceOp::sum)->wait();
  for (int run = 0; run < 5; ++run) {
    std::vector<float> again = awkward_values(world().rank(), 70'001);
    world().all_reduce_async(view(again), ReduceOp::sum)->wait();
    EXPECT_EQ(again, first);
  }
}

TEST(AllReduceAsync, FinishesByTestsAloneWhileComputing) {
  std::vector<float> values(200'003, 1.0F);
  const auto request = world().all_reduce_async(view(values), ReduceOp::sum);
  double work = 0.0;
  // The watchdog ends the job if tests alone never get there.
  for (int i = 1; !request->test(); ++i) work += std::sqrt(static_cast<double>(i));
  EXPECT_GE(work, 0.0);
  EXPECT_TRUE(request->test()) << "done once, done for good";
  request->wait();
  EXPECT_EQ(values, std::vector<float>(200'003, static_cast<float>(world().size())));
}

TEST(AllReduceAsync, SeveralOutstandingFinishInAnyOrder) {
  constexpr std::size_t count = 9;
  std::vector<std::vector<std::int32_t>> values;
  std::vector<std::unique_ptr<Request>> requests;
  for (std::size_t i = 0; i < count; ++i) values.emplace_back(i * i * 1000, world().rank() + 1);
  for (std::size_t i = 0; i < count; ++i) {
    requests.push_back(
        world().all_reduce_async(view(values[i]), i % 2 == 0 ? ReduceOp::sum : ReduceOp::max));
  }
  // A blocking collective between them must not disturb them.
  std::vector<std::int64_t> between{1};
  world().all_reduce(view(between), ReduceOp::sum);
  EXPECT_EQ(between[0], world().size());

  const int ranks = world().size();
  for (std::size_t i = count; i-- > 0;) {
    requests[i]->wait();
    const std::int32_t expected = i % 2 == 0 ? ranks * (ranks + 1) / 2 : ranks;
    EXPECT_EQ(values[i], std::vector<std::int32_t>(i * i * 1000, expected));
  }
}

}  // namespace
}  // namespace tandem
