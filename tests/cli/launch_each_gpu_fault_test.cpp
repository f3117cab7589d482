#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/fault_check.h"
#include "cli/launch_fault.h"

// Faults that meet jobs with one rank, or two that share it, on each of two GPUs, made up or real,
// whose gradients travel between them by NCCL, also as between hosts, or directly.

namespace tandem::cli {
namespace {

struct Layout {
  std::string exchange;
  int ranks_per_gpu;
  bool as_between_hosts = false;  ///< NCCL through sockets, where it hears of a peer that is gone
};

class FaultOnEachGpu : public LaunchFault, public testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    if (device().computes) return;
    if (GetParam().exchange == "direct" || GetParam().as_between_hosts) {
      GTEST_SKIP() << "ranks on CPUs exchange through MPI, whatever is asked for of GPUs";
    }
  }

  std::unique_ptr<Program> started_on_each(const Words& options = {}) {
    Launch job = launch(each_gpu(options), endless_job(settings()));
    if (!options.empty()) job.timeout += device().start_seconds;  // once more
    if (GetParam().as_between_hosts) {
      job = with(with(std::move(job), "NCCL_P2P_DISABLE", "1"), "NCCL_SHM_DISABLE", "1");
      job = with(with(std::move(job), "NCCL_NET", "Socket"), "NCCL_SOCKET_IFNAME", "lo");
    }
    return started(std::move(job));
  }

  static Words each_gpu(Words more = {}) {
    more.insert(more.end(),
                {"--gpus", "2", "--ranks-per-gpu", std::to_string(GetParam().ranks_per_gpu)});
    return more;
  }

  static Words settings() {
    return set({fmt::format("parallel.exchange=\"{}\"", GetParam().exchange),
                "parallel.timeout_seconds=5"});
  }

  static int ranks() { return 2 * GetParam().ranks_per_gpu; }
  static int last() { return ranks() - 1; }
  static std::vector<pid_t> all_of(const Program& job) { return processes_of(job, ranks()); }

  /// "rank 1 on HOST, UUID", as the launcher says it of the last one.
  std::string last_rank() const {
    return fmt::format("rank {} on {}, {}", last(), host_name(), device().next_gpu);
  }

  void expect_line(const Outcome& outcome, int code, const std::vector<std::string>& parts) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    const std::string line = only_error(outcome);
    for (const std::string& part : parts) {
      EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
    }
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
      {"error: step ", "waited 5 s in ",
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

INSTANTIATE_TEST_SUITE_P(Layouts, FaultOnEachGpu,
                         testing::Values(Layout{"nccl", 1}, Layout{"direct", 1}, Layout{"nccl", 2},
                                         Layout{"direct", 2}, Layout{"nccl", 1, true},
                                         Layout{"nccl", 2, true}),
                         [](const auto& each) {
                           return fmt::format("{}_{}_on_each{}", each.param.exchange,
                                              each.param.ranks_per_gpu,
                                              each.param.as_between_hosts ? "_by_sockets" : "");
                         });

}  // namespace
}  // namespace tandem::cli
