#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"
#include "cli/message_check.h"

// Ranks that stand still before MPI has started, which waits for all of them, or where it ends, and
// ranks that are killed where they would stand still between: over made-up GPUs
// (test_cli_start_faults) and over a real one (test_cli_launch_faults_gpu).

namespace tandem::cli {
namespace {

class StoppedStart : public LaunchFault {
 protected:
  /// How a job of four ranks ends of which those listed are stopped.
  Outcome outcome_of(const std::string& ranks) const {
    Launch job = launch(shared_gpu(), endless_job());
    job = with(job, "LD_PRELOAD", TANDEM_STOPPED_START_LIBRARY);
    job = with(job, "TANDEM_STOPPED_START", ranks);
    Program program(with(job, "TANDEM_START_SECONDS", "5"));
    Outcome outcome = end_after_fault(program);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    expect_nothing_left();
    return outcome;
  }
};

TEST_F(StoppedStart, OfSomeRanksIsToldByOneThatWaitsForThem) {
  const Outcome outcome = outcome_of("0 2");
  const std::string expected = fmt::format(
      "waited 5 s in MPI_Init for ranks 0 and 2 on {}, {}, which are stopped; look at the hosts",
      host_name(), device().gpu);
  EXPECT_NE(only_error(outcome).find(expected), std::string::npos) << outcome.err;
}

TEST_F(StoppedStart, OfAllRanksIsToldByTheProcessesThatWatchThem) {
  const Outcome outcome = outcome_of("0 1 2 3");
  const std::string expected = fmt::format(
      "error: ranks 0, 1, 2 and 3 on {}, {} were stopped by signal 19", host_name(), device().gpu);
  EXPECT_TRUE(only_error(outcome).starts_with(expected)) << outcome.err;
}

class HangingCall : public LaunchFault {
 protected:
  /// A job whose ranks, from now on, never return from that call.
  Launch hanging(const Launch& job, const char* call) const {
    write_file(path("hang"), "");
    return with(with(with(job, "LD_PRELOAD", TANDEM_HANGING_CALLS), "TANDEM_HANGING_CALL", call),
                "TANDEM_HANGING_FILE", path("hang").string());
  }
};

using StoppedEnd = HangingCall;

TEST_F(StoppedEnd, OfARankIsToldByOneThatWaitsForItsEnd) {
  const Words settings = set({"train.max_steps=2", "parallel.timeout_seconds=5"});
  Program job(hanging(launch(shared_gpu(), settings), "end"));
  const Outcome outcome = end_with_fault(job, 60.0);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string expected = fmt::format(
      "error: the run's work is done, but waited 13.4 s in MPI_Finalize for rank 1 on {}, {}, "
      "which "
      "is stopped; look at the hosts (rank 0 on ",
      host_name(), device().gpu);
  EXPECT_TRUE(only_error(outcome).starts_with(expected)) << outcome.err;
  expect_nothing_left();
}

/// The rank that is killed.
class KilledStart : public HangingCall, public testing::WithParamInterface<int> {
 protected:
  /// Kills the rank once `holder` has that file, or folder, open.
  void expect_named(Program& job, int holder, const std::string& file) const {
    const std::vector<pid_t> processes = processes_of(job);
    wait_until("it stands still there", device().start_seconds, [&] {
      return !job.running() || has_open(processes[static_cast<std::size_t>(holder)], path(file));
    });
    ASSERT_TRUE(job.running()) << job.err();
    Program::signal(processes[static_cast<std::size_t>(GetParam())], SIGKILL);
    const Outcome outcome = end_after_fault(job);
    EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
    const std::string line = only_error(outcome);
    EXPECT_TRUE(line.starts_with(
        fmt::format("error: rank {} on {}, {}, step 0 was ended by signal 9 (Killed)", GetParam(),
                    host_name(), device().gpu)))
        << outcome.err;
    for (const pid_t process : processes) expect_gone(process);
    expect_nothing_left();
  }

 private:
  static bool has_open(pid_t process, const std::filesystem::path& path) {
    std::error_code gone;  // the process, or the file, meanwhile
    const std::filesystem::directory_iterator files(fmt::format("/proc/{}/fd", process), gone);
    return std::any_of(begin(files), end(files), [&](const auto& file) {
      return std::filesystem::read_symlink(file, gone) == path;
    });
  }
};

// Which rank 0 does alone, while the others wait for what it has read.
TEST_P(KilledStart, WhileWeightsAreReadIsNamed) {
  const std::string weights = "first/checkpoints/step-00000001.safetensors";
  ASSERT_EQ(run(launch({"--gpus", "1"}, set({"train.max_steps=1"}), "first")).code, 0);
  Program job(hanging(launch(shared_gpu(), set({fmt::format("train.init=\"{}\"", weights),
                                                "checkpoint.timeout_seconds=0"})),
                      "map"));
  expect_named(job, 0, weights);
}

// On the CPU everywhere: the data of a LaunchDevice are others.
TEST_P(KilledStart, WhileDataAreOpenedIsNamed) {
  for (const char* each : {"train/cat", "train/dog", "val/cat", "val/dog"}) {
    std::filesystem::create_directories(path("photos") / each);
  }
  replace_in(path("run.toml"),
             "kind = \"synthetic\"\ntrain_size = 270\ntest_size = 70\nheight = 8\nwidth = 8\n"
             "channels = 1\nclasses = 4\n",
             "kind = \"folder\"\npath = \"photos\"\nsize = 8\ntimeout_seconds = 0\n");
  Words words{"launch"};
  for (const Words& more : {shared_gpu(), Words{"--", "train", "run.toml", "--out", "out"},
                            set({"train.device=cpu"})}) {
    words.insert(words.end(), more.begin(), more.end());
  }
  Program job(hanging(with_driver(words), "list"));
  expect_named(job, GetParam(), "photos/train");
}

// The launcher looks then from where the run can go on.
TEST_F(KilledStart, WhereCheckpointsDoNotAnswerLeavesTheJobsCode) {
  for (const bool restarts : {false, true}) {
    const Words options =
        restarts ? Words{"--gpus", "none", "--max-restarts", "2"} : Words{"--gpus", "none"};
    const Launch job = with_script(launch(options), "mpirun",
                                   "#!/bin/sh\nmkdir -p out/checkpoints\n"
                                   "echo >out/checkpoints/step-00000004.safetensors\nexit 3\n");
    const Outcome outcome = run(with(hanging(job, "map"), "TANDEM_START_SECONDS", "5"));
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    only_error(outcome);
    EXPECT_EQ(occurrences(outcome.err,
                          "warning: from where the run can go on is not known: "
                          "out/checkpoints/step-00000004.safetensors: waited 4 s for it; "),
              1U)
        << outcome.err;
    EXPECT_LT(outcome.seconds, 15.0);
    std::filesystem::remove_all(path("out"));
  }
}

// Which a launcher of an evaluation looks at before there are ranks to wait for it.
TEST_F(KilledStart, WhereTheConfigOfAnEvaluationDoesNotAnswerIsNamed) {
  std::filesystem::create_directories(path("out"));
  std::filesystem::copy_file(path("run.toml"), path("out/config.toml"));
  for (const char* call : {"stat", "open"}) {
    const Launch eval = with_driver({"launch", "--gpus", "none", "--", "eval", "out"});
    Program job(with(hanging(eval, call), "TANDEM_START_SECONDS", "5"));
    const Outcome outcome = end_after_fault(job);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(only_error(outcome).find("out/config.toml: waited 4 s for it; "), std::string::npos)
        << call << ": " << outcome.err;
    expect_nothing_left();
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledStart, testing::Values(0, 1));

}  // namespace
}  // namespace tandem::cli
