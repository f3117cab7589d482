#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "parallel/device_test.h"
#include "train/counted_steps.h"

// Ranks that exchange gradients, with a GPU each or sharing one: collectives and updates are in the
// launched graph too.

namespace tandem {
namespace {

bool share_gpus() { return devices_of_ranks().size() < static_cast<std::size_t>(world().size()); }

/// Ways to exchange gradients that are tried: both, but of ranks that share GPUs the one that the
/// program is started for, since directly is not possible without MPS.
std::vector<std::string> exchanges() {
  if (!share_gpus()) return {"nccl", "direct"};
  return {links_of_test().exchange == ExchangeKind::direct ? "direct" : "nccl"};
}

std::string expected_reduction(const std::string& exchange) {
  if (!share_gpus()) return exchange;
  return devices_of_ranks().size() == 1 ? "colocated" : "hierarchical";
}

/// Collective.
CountedSteps run_of(std::vector<std::string> settings, const std::string& exchange) {
  settings.push_back("parallel.exchange=\"" + exchange + "\"");
  return {std::move(settings), hosts()};
}

void expect_few_calls(const std::vector<std::string>& settings, const std::string& exchange) {
  CountedSteps run = run_of(settings, exchange);
  ASSERT_NE(run.parts().reduction, nullptr);
  EXPECT_EQ(run.parts().reduction->name(), expected_reduction(exchange));
  run.run(5);  // the first as it is, the second captures
  hosts().barrier();
  expect_one_launch_and_the_copies(run);
}

const std::vector<std::string> accumulated{"train.precision=\"bf16\"", "train.accumulate=2",
                                           "optimizer.clip_norm=0.5"};

TEST(DeviceCallsOfRanks, AreOneLaunchAndTheBatchesCopies) {
  for (const std::string& exchange : exchanges()) {
    SCOPED_TRACE(exchange);
    expect_few_calls({}, exchange);
    expect_few_calls(accumulated, exchange);
  }
}

TEST(DeviceCallsOfRanks, StayThatFewWithStatisticsOverAllRanks) {
  expect_few_calls({"train.sync_batch_norm=true"}, exchanges().front());
}

// The first step, which runs as it is, and the second, which is captured, ask NCCL for what the
// graph then holds: one rank of each GPU for the sum of the step's statistics, and for those of
// gradients unless these are exchanged directly.
TEST(DeviceCallsOfRanks, ThatMakeTheGraphAreThoseOfTheExchange) {
  constexpr int steps = 2;
  const auto devices = static_cast<std::int64_t>(devices_of_ranks().size());
  for (const std::string& exchange : exchanges()) {
    SCOPED_TRACE(exchange);
    CountedSteps run = run_of({}, exchange);
    DeviceCalls calls = device_calls_of([&] { run.run(steps); });
    std::vector<std::int64_t> sums{take_out(calls, {"ncclAllReduce"})};
    hosts().all_reduce(view(sums), ReduceOp::sum);  // over the ranks
    if (devices == 1) {
      EXPECT_EQ(sums[0], 0);
    } else if (exchange == "direct") {
      EXPECT_EQ(sums[0], steps * devices);
    } else {
      EXPECT_GE(sums[0], 2 * steps * devices);
    }
  }
}

}  // namespace
}  // namespace tandem
