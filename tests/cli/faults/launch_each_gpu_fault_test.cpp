#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/on_each_gpu.h"

// Faults that meet jobs with one rank, or two that share it, on each of two GPUs, made up or real,
// whose gradients travel between them by NCCL, also as between hosts, or directly.

namespace tandem::cli {
namespace {

class FaultOnEachGpu : public OnEachGpu<LaunchFault> {
 protected:
  std::unique_ptr<Program> started_on_each(const Words& options = {}) {
    return started(job_on_each(options));
  }
};

TEST_P(FaultOnEachGpu, ARankThatIsKilledIsNamedWithTheBucketOrWhatElseIsWaitedIn) {
  const auto job = started_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  Program::signal(processes.back(), SIGKILL);
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 128 + SIGKILL,
              {"error: " + last_rank() + ", step ", " was ended by signal 9 (Killed), while rank",
               " waited in "});
  expect_clean_end(processes, each_gpu());
}

TEST_P(FaultOnEachGpu, ARankThatHangsIsNamedWithTheBucketOrWhatElseIsWaitedIn) {
  const auto job = started_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  hold(processes.back());
  const Outcome outcome = end_after_fault(*job);
  expect_line(
      outcome, 1,
      {"error: step ", fmt::format("waited {} s in ", timeout_seconds),
       fmt::format(" for rank {}, which gives no sign of life", last()),
       fmt::format("(rank {} on {}{})", last(), host_name(), used(device(), device().next_gpu))});
  expect_clean_end(processes, each_gpu());
}

// Of two GPUs a sum has the same bits whichever way it travels.
TEST_P(FaultOnEachGpu, AKilledRankIsLeftBehindByARestartThatGoesOnBitExactly) {
  const auto job = started_on_each({"--max-restarts", "1"});
  Program::signal(all_of(*job).back(), SIGKILL);
  expect_restart_with_the_same_bits(*job, 128 + SIGKILL, 0, each_gpu(), settings());
}

TEST_P(FaultOnEachGpu, AJobThatIsStoppedGoesOn) {
  const auto job = started_on_each();
  const std::vector<pid_t> processes = all_of(*job);
  job->signal(SIGTERM);
  EXPECT_EQ(end_after_fault(*job).code, stopped);
  expect_clean_end(processes, each_gpu());
}

INSTANTIATE_TEST_SUITE_P(Layouts, FaultOnEachGpu, all_layouts(), name_of);

class HungRankOnEachGpu : public FaultOnEachGpu {};

// With all that comes behind the time-out.
TEST_P(HungRankOnEachGpu, IsGoneInTimeByDefault) {
  if (!device().computes) GTEST_SKIP() << "on CPUs FaultyRank and StoppedRanks are enough";
  const auto job = started(job_on_each({}, set({exchange()})));
  const std::vector<pid_t> processes = all_of(*job);
  hold(processes.back());
  const Outcome outcome = end_after_fault(*job, 60.0);
  expect_line(outcome, 1,
              {"error: step ", "waited 20 s in ",
               fmt::format(" for rank {}, which gives no sign of life", last())});
  expect_clean_end(processes, each_gpu());
}

INSTANTIATE_TEST_SUITE_P(Layouts, HungRankOnEachGpu, single_layouts(), name_of);

}  // namespace
}  // namespace tandem::cli
