#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"

// Signals to `tandem launch`, and the end of its terminal, over made-up GPUs
// (test_cli_launch_faults) and over a real one (test_cli_launch_faults_gpu).

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class LaunchSignals : public LaunchFault, public testing::WithParamInterface<int> {};

TEST_P(LaunchSignals, LetTheRanksWriteTheirCheckpoint) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  job->signal(GetParam());
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, stopped) << outcome.err;
  EXPECT_NE(outcome.err.find(fmt::format("signal {} (", GetParam())), std::string::npos);
  EXPECT_NE(outcome.err.find("): the ranks are asked to stop; "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("go on with --resume"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  expect_clean_end(processes);
}

INSTANTIATE_TEST_SUITE_P(Each, LaunchSignals, testing::Values(SIGINT, SIGTERM, SIGHUP, SIGUSR1),
                         [](const auto& each) {
                           return each.param == SIGINT    ? "Int"
                                  : each.param == SIGTERM ? "Term"
                                  : each.param == SIGHUP  ? "Hup"
                                                          : "Usr1";
                         });

/// A job that is started at a terminal.
class LaunchAtATerminal : public LaunchFault {
 protected:
  std::unique_ptr<Program> started_at_terminal() {
    Launch command = launch(shared_gpu(), endless_job());
    command.terminal = true;
    return started(command);
  }
};

// The terminal's own signal, which reaches all of its foreground: the ranks and the daemon's guard
// have to be out of it.
TEST_F(LaunchAtATerminal, LetsTheRanksWriteTheirCheckpointAtCtrlC) {
  const auto job = started_at_terminal();
  const std::vector<pid_t> processes = processes_of(*job);
  job->type("\x03");
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, stopped) << outcome.out;
  EXPECT_NE(outcome.out.find("go on with --resume"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" (asked by tandem launch)"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("error: "), std::string::npos) << outcome.out;
  expect_clean_end(processes);
}

// Besides SIGHUP, whatever is still written fails.
TEST_F(LaunchAtATerminal, LetsTheRanksWriteTheirCheckpointWhereItIsLost) {
  const auto job = started_at_terminal();
  const std::vector<pid_t> processes = processes_of(*job);
  job->close_terminal();
  EXPECT_EQ(end_after_fault(*job).code, stopped);
  const std::string log = read_file(path("out/train.log"));
  EXPECT_NE(log.find("go on with --resume"), std::string::npos) << log;
  expect_clean_end(processes);
}

// As nohup leaves SIGHUP, and a shell without job control SIGINT of what it starts with &.
TEST_F(LaunchSignals, AreLeftIgnoredWhereTheyWere) {
  Launch command = launch(shared_gpu(), endless_job());
  command.ignored_signals = {SIGHUP, SIGINT};
  const auto job = started(command);
  job->signal(SIGHUP);
  job->signal(SIGINT);
  expect_checkpoint_after(checkpoint_steps(path("out")).back() + device().checkpoint_every);
  EXPECT_TRUE(job->running());
  job->signal(SIGTERM);
  EXPECT_EQ(job->wait().code, stopped);
  expect_nothing_left();
}

// Everything hangs, and behind an mpirun that is out of reach at that.
TEST_F(LaunchSignals, KillTheRanksThemselvesAtLast) {
  const auto job = started(with_script(launch(shared_gpu(), endless_job()), "mpirun", R"(#!/bin/bash
trap : USR1 TERM
PATH=${PATH//"${0%/*}":/}
setsid mpirun "$@" &
while kill -0 $! 2>/dev/null; do wait $!; done
wait $!
)"));
  const std::vector<pid_t> processes = processes_of(*job);
  for (const pid_t process : processes) Program::signal(process, SIGSTOP);
  // Three suffice; on a busy host two may come within the second in which they count as one.
  for (int count = 0; count < 10 && job->running(); ++count) {
    job->signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  }
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_NE(outcome.err.find("warning: the job was ended before its ranks had stopped"),
            std::string::npos)
      << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
}

/// Where Open MPI's mpirun keeps what it needs.
fs::path mpirun_folder(pid_t process) {
  for (const fs::directory_entry& each : fs::directory_iterator(fs::temp_directory_path())) {
    fs::path folder = each.path() / fmt::format("pid.{}", process);
    const bool is_open_mpis = each.path().filename().string().starts_with("ompi.");
    if (is_open_mpis && fs::exists(folder)) return folder;
  }
  throw std::runtime_error("mpirun has no folder");
}

// mpirun has no time to clear up behind the ranks then: here it hangs too.
TEST_F(LaunchSignals, LeaveNothingOfRanksThatTheyKillTogetherWithMpirun) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  const pid_t mpirun = mpirun_of(*job);
  const fs::path folder = mpirun_folder(mpirun);
  hold(mpirun);
  for (const pid_t process : processes) hold(process);
  for (int count = 0; count < 10 && job->running(); ++count) {
    job->signal(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  }
  EXPECT_EQ(end_after_fault(*job).code, 128 + SIGTERM);
  EXPECT_FALSE(fs::exists(folder)) << folder;
  expect_clean_end(processes);
}

}  // namespace
}  // namespace tandem::cli
