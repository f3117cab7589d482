#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cli/run_folder.h"

// What a profiler is told of a run: NVTX ranges that name its phases and layers. On the CPU too, so
// that most of it needs no GPU.

namespace tandem::cli {
namespace {

/// The ranges that a rank began, in order, each by the names of those that it lies in:
/// "step/forward/conv1". One that ends before it began, or never ends, fails the test.
std::vector<std::string> read_ranges(const std::filesystem::path& file) {
  std::vector<std::string> ranges;
  std::map<std::string, std::vector<std::string>> open;  // by thread, the innermost last
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string thread;
    std::string what;
    std::string name;
    words >> thread >> what >> std::ws;
    std::getline(words, name);
    std::vector<std::string>& mine = open[thread];
    if (what == "push") {
      mine.push_back(mine.empty() ? name : mine.back() + "/" + name);
      ranges.push_back(mine.back());
    } else if (mine.empty()) {
      ADD_FAILURE() << "an end without a begin after " << ranges.size() << " ranges of " << file;
    } else {
      mine.pop_back();
    }
  }
  for (const auto& [thread, left] : open) {
    EXPECT_TRUE(left.empty()) << left.back() << " never ends in " << file;
  }
  return ranges;
}

std::vector<std::string> outer_two(std::vector<std::string> ranges) {
  std::erase_if(ranges, [](const std::string& range) { return occurrences(range, "/") > 1; });
  return ranges;
}

class Ranges : public RunTest, public testing::WithParamInterface<int> {
 protected:
  /// What a profiler's library takes of a run of so many steps and an evaluation of two batches.
  void record(const std::string& device = "cpu", int steps = 2) const {
    std::filesystem::create_directory(path("ranges"));
    const Outcome outcome =
        run({.command = train_command(
                 "out",
                 set({"train.device=\"" + device + "\"", "train.epochs=1",
                      "data.train_size=" + std::to_string(32 * steps), "data.test_size=64"}),
                 GetParam()),
             .folder = root(),
             // A GPU's step that is timed in order to choose how it is run has ranges too.
             .environment = {{"TANDEM_TUNE", "off"},
                             {"NVTX_INJECTION64_PATH", TANDEM_RANGE_RECORDER},
                             {"TANDEM_RANGES", path("ranges").string()}}});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  std::vector<std::string> of_rank(int rank) const {
    return read_ranges(path("ranges") / std::to_string(rank));
  }
};

TEST_P(Ranges, NameTheStepsWithTheirPhasesAndTheEvaluation) {
  ASSERT_NO_FATAL_FAILURE(record());
  for (int rank = 0; rank < GetParam(); ++rank) {
    EXPECT_EQ(
        outer_two(of_rank(rank)),
        (std::vector<std::string>{
            "step", "step/forward", "step/loss", "step/backward", "step/update", "step",
            "step/forward", "step/loss", "step/backward", "step/update", "evaluation",
            "evaluation/forward", "evaluation/loss", "evaluation/forward", "evaluation/loss"}))
        << "rank " << rank;
  }
}

TEST_P(Ranges, NameTheLayersInThePassesAndTheBuckets) {
  ASSERT_NO_FATAL_FAILURE(record());
  for (int rank = 0; rank < GetParam(); ++rank) {
    const std::vector<std::string> ranges = of_rank(rank);
    for (const char* pass : {"step/forward/", "step/backward/", "evaluation/forward/"}) {
      for (const char* layer : {"conv1", "layer1.0.conv1", "layer1.0.conv2", "layer2.0.conv1",
                                "layer2.0.conv2", "layer2.0.downsample.0", "layer3.0.conv1",
                                "layer3.0.conv2", "layer3.0.downsample.0", "avgpool", "fc"}) {
        const std::string range = std::string(pass) + layer;
        EXPECT_EQ(std::ranges::count(ranges, range), 2) << range << " of rank " << rank;
      }
    }
    EXPECT_EQ(std::ranges::count(ranges, "step/backward/gradient bucket 1 of 1"),
              GetParam() == 1 ? 0 : 2)
        << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ranges, testing::Values(1, 2));

class RangesOnAGpu : public Ranges {};

TEST_P(RangesOnAGpu, NameWhatLaysOutAndCapturesAStepAndThenItsLaunches) {
  ASSERT_NO_FATAL_FAILURE(record("cuda", 4));
  for (int rank = 0; rank < GetParam(); ++rank) {
    const std::vector<std::string> ranges = of_rank(rank);
    std::vector<std::string> outer = outer_two(ranges);
    std::erase_if(outer, [](const std::string& range) { return range.starts_with("evaluation"); });
    EXPECT_EQ(outer, (std::vector<std::string>{"step", "step/batches", "step/first step", "step",
                                               "step/batches", "step/capture", "step/launch",
                                               "step", "step/batches", "step/launch", "step",
                                               "step/batches", "step/launch"}))
        << "rank " << rank;
    // The first step as it runs, and again as the graph is recorded: what a profiler shows of the
    // graph's kernels is known from there.
    for (const std::string step : {"step/first step/", "step/capture/"}) {
      for (const char* part :
           {"input", "forward/conv1", "forward/layer1.0.conv1", "forward/fc", "loss", "backward/fc",
            "backward/layer1.0.conv1", "backward/conv1"}) {
        // Twice in backward where a layer's weights have their gradient later than its input.
        EXPECT_GE(std::ranges::count(ranges, step + part), 1) << step << part << " of " << rank;
      }
      EXPECT_EQ(std::ranges::count(ranges, step + "backward/gradient bucket 1 of 1"),
                GetParam() == 1 ? 0 : 1)
          << step << " of rank " << rank;
    }
    for (const char* part :
         {"evaluation/forward/conv1", "evaluation/capture/forward/conv1", "evaluation/launch"}) {
      EXPECT_EQ(std::ranges::count(ranges, part), 1) << part << " of rank " << rank;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, RangesOnAGpu, testing::Values(1, 2));

}  // namespace
}  // namespace tandem::cli
