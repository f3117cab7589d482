#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/faulty_device.h"
#include "cli/faults/on_each_gpu.h"

// Faults of the own device of the last rank, in jobs with one or two ranks on each of two GPUs:
// whoever is on the other GPU meets none, and waits for gradients that do not come.

namespace tandem::cli {
namespace {

class DeviceOnEachGpu : public OnEachGpu<FaultyDevice> {
 protected:
  std::unique_ptr<Program> started_faulty_on_each(const Words& options = {}) {
    return started(faulty(job_on_each(options)));
  }

  /// Whether the line names one of the second GPU's ranks with its step: of those that share it
  /// under MPS each is told of the fault.
  bool names_a_rank_of_the_second(const std::string& line) const {
    for (int rank = GetParam().ranks_per_gpu; rank < ranks(); ++rank) {
      const std::string place = place_of(rank, device().next_gpu);
      if (line.find("(" + place + ", step ") != std::string::npos) return true;
    }
    return false;
  }
};

TEST_P(DeviceOnEachGpu, ThatFaultsEndsTheJobWithOneLineOfItsRanks) {
  const auto job = started_faulty_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  order({last()}, "astray");
  const Outcome outcome = end_after_fault(*job);
  const std::string line = expect_line(outcome, 1, {"CUDA failed: ", "go on with --resume"});
  EXPECT_TRUE(names_a_rank_of_the_second(line)) << line;
  const std::string sharers = ranks() == 4 ? "any of ranks 2 and 3" : "any of ";
  EXPECT_EQ(line.find(sharers) != std::string::npos, ranks() == 4) << line;
  expect_clean_end(processes, each_gpu());
}

TEST_P(DeviceOnEachGpu, ThatFaultsIsLeftBehindByARestartThatGoesOnBitExactly) {
  const auto job = started_faulty_on_each({"--max-restarts", "1"});
  order({last()}, "astray");
  expect_restart_with_the_same_bits(*job, 1, 0, each_gpu(), settings());
}

TEST_P(DeviceOnEachGpu, ThatHangsIsNamedAndEndedWithTheJob) {
  const auto job = started_faulty_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  order({last()}, "spin");
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 1,
              {"error: step ", fmt::format("waited {} s in ", timeout_seconds),
               fmt::format(" for rank {}, which gives signs of life, but whose device does not get "
                           "that far",
                           last()),
               last_rank(), "go on with --resume"});
  expect_clean_end(processes, each_gpu());
}

TEST_P(DeviceOnEachGpu, WithoutMemoryInMidRunFailsAsOneOfTheRank) {
  const auto job = started_faulty_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  order({last()}, "memory");
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 1,
              {"out of memory on ", "in the middle of the run", "go on with --resume",
               "(" + last_rank() + ", step "});
  expect_clean_end(processes, each_gpu());
}

INSTANTIATE_TEST_SUITE_P(Layouts, DeviceOnEachGpu, all_layouts(), name_of);

class HungDeviceOnEachGpu : public DeviceOnEachGpu {};

// With all that comes behind the time-out.
TEST_P(HungDeviceOnEachGpu, IsGoneInTimeByDefault) {
  const auto job = started(faulty(job_on_each({}, set({exchange()}))));
  const std::vector<pid_t> processes = all_of(*job);
  order({last()}, "spin");
  const Outcome outcome = end_after_fault(*job, 60.0);
  expect_line(outcome, 1,
              {"error: step ", "waited 20 s in ",
               fmt::format(" for rank {}, which gives signs of life, but whose device", last()),
               last_rank()});
  expect_clean_end(processes, each_gpu());
}

// The others have had all that they need of its step, and would evaluate.
TEST_P(HungDeviceOnEachGpu, BehindTheLastStepIsNamedBeforeTheOthersEvaluate) {
  const int steps = device().checkpoint_every + 100;
  const Launch job = job_on_each({}, settings_of_a_long_end(steps, settings()));
  const auto hung = started_and_hung_behind(job, last(), steps);
  const std::vector<pid_t> processes = all_of(*hung);
  const Outcome outcome = end_after_fault(*hung);
  expect_line(outcome, 1,
              {fmt::format("error: step {}: waited {} s in the step's end", steps, timeout_seconds),
               fmt::format(" for rank {}, which gives signs of life, but whose device does not get "
                           "that far",
                           last()),
               last_rank(), "go on with --resume"});
  expect_clean_end(processes, each_gpu());
}

INSTANTIATE_TEST_SUITE_P(Layouts, HungDeviceOnEachGpu, single_layouts(), name_of);

}  // namespace
}  // namespace tandem::cli
