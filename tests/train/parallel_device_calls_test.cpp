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

std::string expected_reduction(const std::string& exchange) {
  const std::size_t devices = devices_of_ranks().size();
  if (devices == static_cast<std::size_t>(world().size())) return exchange;
  return devices == 1 ? "colocated" : "hierarchical";
}

void expect_few_calls(std::vector<std::string> settings, const std::string& exchange) {
  settings.push_back("parallel.exchange=\"" + exchange + "\"");
  CountedSteps run(std::move(settings), hosts());
  ASSERT_NE(run.parts().reduction, nullptr);
  EXPECT_EQ(run.parts().reduction->name(), expected_reduction(exchange));
  run.run(5);  // the first as it is, the second captures
  hosts().barrier();
  expect_one_launch_and_the_copies(run);
}

const std::vector<std::string> accumulated{"train.precision=\"bf16\"", "train.accumulate=2",
                                           "optimizer.clip_norm=0.5"};

TEST(DeviceCallsOfRanks, AreOneLaunchAndTheBatchesCopies) {
  for (const char* exchange : {"nccl", "direct"}) {
    SCOPED_TRACE(exchange);
    expect_few_calls({}, exchange);
    expect_few_calls(accumulated, exchange);
  }
}

TEST(DeviceCallsOfRanks, StayThatFewWithStatisticsOverAllRanks) {
  expect_few_calls({"train.sync_batch_norm=true"}, "nccl");
}

}  // namespace
}  // namespace tandem
