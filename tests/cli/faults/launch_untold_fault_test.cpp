#include <fmt/format.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"
#include "support/process.h"

// Ends of a job of which no rank tells: what is known is the launcher's to say.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class UntoldEnd : public LaunchFault {};

constexpr const char* before_any_rank =
    "error: mpirun ended with code {} before any rank had started; {}";
constexpr const char* how_to_see =
    "start the same command with TANDEM_LOG=debug in the environment, and mpirun says why";

TEST_F(UntoldEnd, OfMpirunBeforeThereAreRanksIsTold) {
  const Launch job =
      with_script(launch({"--gpus", "none"}), "mpirun", "#!/bin/sh\necho no place >&2\nexit 3\n");
  const Outcome quiet = run(job);
  EXPECT_EQ(quiet.code, 3) << quiet.err;
  EXPECT_EQ(only_error(quiet), fmt::format(before_any_rank, 3, how_to_see));
  const Outcome loud = run(with(job, "TANDEM_LOG", "debug"));
  EXPECT_EQ(only_error(loud), fmt::format(before_any_rank, 3, "look at what it says above"));
  expect_nothing_left();
}

// Where Open MPI says why to nobody, since it is to be quiet.
TEST_F(UntoldEnd, OfMpirunByAValueThatItDoesNotKnowIsTold) {
  const Launch job = with(launch({"--gpus", "none", "--max-restarts", "1"}),
                          "OMPI_MCA_rmaps_base_mapping_policy", "no-such-policy");
  const Outcome quiet = run(job);
  EXPECT_EQ(quiet.code, 1) << quiet.err;
  EXPECT_EQ(occurrences(quiet.err, fmt::format(before_any_rank, 1, how_to_see)), 2U) << quiet.err;
  EXPECT_NE(run(with(job, "TANDEM_LOG", "debug")).err.find("no-such-policy"), std::string::npos);
  expect_nothing_left();
}

// Which mpirun has the words for.
TEST_F(UntoldEnd, OfRanksInTheMpiLibraryIsTold) {
  const Launch job = with(launch({"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe"}),
                          "OMPI_MCA_btl", "no-such-transport");
  const Outcome quiet = run(job);
  EXPECT_EQ(quiet.code, 1) << quiet.err;
  EXPECT_EQ(only_error(quiet),
            fmt::format("error: mpirun ended with code 1 though no rank told of an error; {}",
                        how_to_see));
  const Outcome loud = run(with(job, "TANDEM_LOG", "debug"));
  // Open MPI 4.1 sometimes loses its words where two ranks have them at once, and says that.
  EXPECT_TRUE(loud.err.find("no-such-transport") != std::string::npos ||
              loud.err.find("ORTE_ERROR_LOG: Data unpack") != std::string::npos ||
              loud.err.find("ORTE_ERROR_LOG: Out of resource") != std::string::npos)
      << loud.err;
  expect_nothing_left();
}

// By which its rank is killed too, of whose end nobody else is left to tell.
TEST_F(UntoldEnd, OfAWatcherIsToldWithItsRank) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  const pid_t watcher = parent_of(processes[1]);
  Program::signal(watcher, SIGKILL);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  const std::string start = fmt::format("error: {}, step ", place_of(1));
  ASSERT_TRUE(line.starts_with(start)) << line;
  const std::size_t step_digits = line.substr(start.size()).find(' ');
  EXPECT_GT(std::stoi(line.substr(start.size())), 0) << line;
  EXPECT_EQ(line.substr(start.size() + step_digits),
            fmt::format(" ended without a word, and so did what watched it (tandem launch-rank, "
                        "process {}): killed by somebody, or by the kernel where memory ran out; "
                        "look at that host's memory and kernel log",
                        watcher));
  EXPECT_NE(outcome.err.find("warning: the run can go on from step "), std::string::npos)
      << outcome.err;
  expect_clean_end(processes);
}

// By a person, or a batch system: mpirun kills the watchers then, at whatever its ranks are.
TEST_F(UntoldEnd, OfAnMpirunThatIsAskedToEndIsNoLossOfItsRanks) {
  const auto job = started({"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe"});
  const std::vector<pid_t> processes = processes_of(*job, 2);
  Program::signal(mpirun_of(*job), SIGTERM);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.err.find("ended without a word"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("no rank told of an error"), std::string::npos) << outcome.err;
  if (outcome.code != stopped) {
    const std::string wanted =
        "error: mpirun was ended from outside (code 1), and its ranks with it; where nobody did ";
    EXPECT_EQ(only_error(outcome).substr(0, wanted.size()), wanted);
  }
  EXPECT_NE(outcome.err.find("--resume"), std::string::npos) << outcome.err;
  expect_clean_end(processes);
}

// A rank has told of an error before, which is then the job's only line.
TEST_F(UntoldEnd, OfWatchersIsNotToldBehindAnError) {
  const auto job =
      started({"--gpus", "1", "--ranks-per-gpu", "2"}, set({"parallel.timeout_seconds=5"}));
  const std::vector<pid_t> ranks = processes_of(*job, 2);
  const std::vector<pid_t> watchers = {parent_of(ranks[0]), parent_of(ranks[1])};
  const pid_t mpirun = mpirun_of(*job);
  for (const pid_t watcher : watchers) hold(watcher);
  hold(mpirun);  // which would wake them in order to end them
  hold(ranks[1]);
  wait_until("the other one has told of it", 40.0,
             [&] { return read_file(path("out/train.log")).find(" error ") != std::string::npos; });
  for (const pid_t watcher : watchers) Program::signal(watcher, SIGKILL);
  Program::signal(mpirun, SIGCONT);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_NE(outcome.code, 2) << "of which no launcher says more";
  EXPECT_NE(only_error(outcome).find(" for rank 1, which gives no sign of life"), std::string::npos)
      << outcome.err;
  expect_clean_end(ranks);
}

// As a terminal is held by Ctrl-S, and let go later.
TEST_F(UntoldEnd, OfAStuckMpirunIsToldOnceThereIsRoomForIt) {
  Launch job = with_script(launch({"--gpus", "none"}, {"--resume", "nowhere"}), "mpirun",
                           R"(#!/bin/bash
PATH=${PATH//"${0%/*}":/}
yes full >&2 &
mpirun "$@" 2>/dev/null
sleep 60
)");
  job.command.insert(
      job.command.begin(),
      {"bash", "-c", R"({ "$@" >/dev/null; } 2>&1 | { sleep 12; grep -avx full; } >&2)", "bash"});
  const Outcome outcome = run(job);
  EXPECT_EQ(occurrences(outcome.err, "warning: mpirun has not ended the job 5 s "), 1U)
      << outcome.err;
  EXPECT_LT(outcome.seconds, 40.0);
  expect_nothing_left();
}

/// A job whose ranks leave a single checkpoint, of which nothing can be read.
class DamagedCheckpoints : public LaunchFault {
 protected:
  Outcome run_damaged(const Words& options, const std::string& end) const {
    const std::string script =
        "#!/bin/sh\nmkdir -p out/checkpoints\n"
        "echo none >out/checkpoints/step-00000004.safetensors\n";
    return run(with_script(launch(options), "mpirun", script + end));
  }
  static constexpr const char* not_known =
      "warning: from where the run can go on is not known: none of the 1 checkpoints in "
      "'out/checkpoints' is sound; ";
};

TEST_F(DamagedCheckpoints, AreWarnedOfAndLeaveTheJobsCode) {
  for (const bool restarts : {false, true}) {
    const Words options =
        restarts ? Words{"--gpus", "none", "--max-restarts", "2"} : Words{"--gpus", "none"};
    const Outcome outcome = run_damaged(options, "exit 3\n");
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    only_error(outcome);
    EXPECT_EQ(occurrences(outcome.err, not_known), 1U) << outcome.err;
    EXPECT_EQ(
        occurrences(outcome.err, "warning: the job ended with code 3, and is not started again\n"),
        restarts ? 1U : 0U)
        << outcome.err;
    fs::remove_all(path("out"));
  }
  expect_nothing_left();
}

TEST_F(DamagedCheckpoints, LeaveTheLineOfAnMpirunThatIsKilled) {
  const Outcome outcome = run_damaged({"--gpus", "none"}, "kill -KILL $$\n");
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  EXPECT_EQ(only_error(outcome),
            "error: mpirun was ended by signal 9 (Killed), and the ranks with it");
  EXPECT_EQ(occurrences(outcome.err, not_known), 1U) << outcome.err;
  expect_nothing_left();
}

}  // namespace
}  // namespace tandem::cli
