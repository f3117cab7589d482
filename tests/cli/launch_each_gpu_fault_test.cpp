#include <fmt/format.h>

#include <csignal>
#include <string>
#include <vector>

#include "cli/fault_check.h"
#include "cli/launch_fault.h"

// Faults that meet jobs with one rank on each of two GPUs, made up or real, whose gradients travel
// between them by NCCL or directly.

namespace tandem::cli {
namespace {

class FaultOnEachGpu : public LaunchFault, public testing::WithParamInterface<const char*> {
 protected:
  static Words each_gpu(Words more = {}) {
    more.insert(more.end(), {"--gpus", "2"});
    return more;
  }

  static Words settings() {
    return set({fmt::format("parallel.exchange=\"{}\"", GetParam()), "parallel.timeout_seconds=5"});
  }

  /// "rank 1 on HOST, UUID", as the launcher says it.
  std::string second_rank() const {
    return fmt::format("rank 1 on {}, {}", host_name(), device().next_gpu);
  }

  void expect_line(const Outcome& outcome, int code, const std::vector<std::string>& parts) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const std::string line = only_error(outcome);
    for (const std::string& part : parts) {
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
    }
  }
};

TEST_P(FaultOnEachGpu, ARankThatIsKilledIsNamed) {
  const auto job = started(each_gpu(), settings());
  const std::vector<pid_t> processes = processes_of(*job, 2);
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 128 + SIGKILL,
              {"error: " + second_rank() + ", step ", " was ended by signal 9 (Killed)"});
  expect_clean_end(processes, each_gpu());
}

TEST_P(FaultOnEachGpu, ARankThatHangsIsNamedWithTheBucketOrWhatElseIsWaitedIn) {
  const auto job = started(each_gpu(), settings());
  const std::vector<pid_t> processes = processes_of(*job, 2);
  hold(processes[1]);
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 1,
              {"error: step ", "waited 5 s in ", " for rank 1, which gives no sign of life",
               fmt::format("(rank 1 on {}{})", host_name(), used(device(), device().next_gpu))});
  expect_clean_end(processes, each_gpu());
}

TEST_P(FaultOnEachGpu, AJobThatIsStoppedGoesOn) {
  const auto job = started(each_gpu(), settings());
  const std::vector<pid_t> processes = processes_of(*job, 2);
  job->signal(SIGTERM);
  EXPECT_EQ(end_after_fault(*job).code, stopped);
  expect_clean_end(processes, each_gpu());
}

INSTANTIATE_TEST_SUITE_P(Exchanges, FaultOnEachGpu, testing::Values("nccl", "direct"));

}  // namespace
}  // namespace tandem::cli
