#include "launch/watcher_list.h"

#include <gtest/gtest.h>

#include "base/host_name.h"

namespace tandem {
namespace {

const std::string what_to_do =
    "): killed by somebody, or by the kernel where memory ran out; look at that host's memory and "
    "kernel log";

TEST(LostText, NamesARankWithItsGpuAndStep) {
  EXPECT_EQ(lost_text({{.rank = 2, .process = 41, .device = "GPU-a", .step = 12}}),
            "rank 2 on " + host_name() +
                ", GPU-a, step 12 ended without a word, and so did what watched it (tandem "
                "launch-rank, process 41" +
                what_to_do);
}

TEST(LostText, NamesRanksOfSeveralGpusByGpu) {
  const std::string text = lost_text({{.rank = 3, .process = 44, .device = "GPU-b", .step = 12},
                                      {.rank = 0, .process = 41, .device = "GPU-a", .step = 12},
                                      {.rank = 2, .process = 43, .device = "GPU-b", .step = 12},
                                      {.rank = 1, .process = 42, .device = "GPU-a", .step = 12}});
  const std::string host = host_name();
  EXPECT_EQ(text, "ranks 0 and 1 on " + host + ", GPU-a, step 12; ranks 2 and 3 on " + host +
                      ", GPU-b, step 12 ended without a word, and so did what watched them (tandem "
                      "launch-rank, processes 41, 42, 43, 44" +
                      what_to_do);
}

TEST(LostText, SaysLittleOfARankThatIsNotKnown) {
  EXPECT_EQ(
      lost_text({{.process = 41}}),
      "a rank on " + host_name() +
          " ended without a word, and so did what watched it (tandem launch-rank, process 41" +
          what_to_do);
}

}  // namespace
}  // namespace tandem
