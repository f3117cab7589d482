#include "cli/faults/launch_fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/process_table.h"
#include "cli/faults/fault_check.h"
#include "support/process.h"

// Faults that meet jobs of `tandem launch` whose ranks share a GPU: over made-up GPUs
// (test_cli_launch_faults) and over a real one (test_cli_launch_faults_gpu). Each ends the whole
// job soon, says so in one line, leaves nothing behind, and the next job works.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

struct Deadly {
  int signal;
  const char* name;
};

class LaunchedRank : public LaunchFault, public testing::WithParamInterface<Deadly> {};

TEST_P(LaunchedRank, ThatASignalEndsIsNamedAndTakesTheJobAlong) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  Program::signal(processes[1], GetParam().signal);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + GetParam().signal) << outcome.err;
  // Open MPI's, in front of a stack of addresses.
  EXPECT_EQ(outcome.err.find("Process received signal"), std::string::npos) << outcome.err;
  const std::string line = only_error(outcome);
  const std::string begin =
      fmt::format("error: rank 1 on {}, {}, step ", host_name(), device().gpu);
  ASSERT_TRUE(line.starts_with(begin)) << outcome.err;
  EXPECT_GE(std::stoi(line.substr(begin.size())), device().checkpoint_every) << line;
  EXPECT_NE(line.find(fmt::format(" was ended by signal {} (", GetParam().signal)),
            std::string::npos)
      << line;
  EXPECT_NE(outcome.err.find("warning: the run can go on from step "), std::string::npos)
      << outcome.err;
  expect_clean_end(processes);
}

INSTANTIATE_TEST_SUITE_P(Signals, LaunchedRank,
                         testing::Values(Deadly{SIGKILL, "Killed"}, Deadly{SIGABRT, "Aborted"}),
                         [](const auto& each) { return each.param.name; });

// It is stopped first, so that the others are sure to have come to where they miss it.
TEST_F(LaunchedRank, ThatASignalEndsIsToldWithWhatTheOthersWaitIn) {
  const auto job =
      started(shared_gpu(), set({"parallel.first_bucket_mib=0.01", "parallel.check_every=0"}));
  const std::vector<pid_t> processes = processes_of(*job);
  hold(processes[1]);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  for (const char* part : {" was ended by signal 9 (Killed), while ", " waited in "}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  // Where it had handed in its last bucket they miss it a little later.
  const std::vector<std::string_view> places = {"bucket ", " the step's statistics",
                                                " the update of a host's shared weights"};
  EXPECT_TRUE(std::ranges::any_of(places, [&](std::string_view place) {
    return line.find(place) != std::string::npos;
  })) << line;
  expect_clean_end(processes);
}

TEST_F(LaunchedRank, ThatHangsIsNamedAndEndedWithTheJob) {
  const auto job = started(shared_gpu(), set({"parallel.timeout_seconds=5"}));
  const std::vector<pid_t> processes = processes_of(*job);
  Program::signal(processes[1], SIGSTOP);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  for (const std::string& part :
       {std::string("step "), std::string(" for rank 1, which gives no sign of life"),
        fmt::format("(rank 1 on {}{})", host_name(), used(device(), device().gpu))}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  expect_clean_end(processes);
}

struct Together {
  const char* name;
  std::vector<std::size_t> ranks;
  std::string text;
  std::chrono::milliseconds last_comes{0};  // its watcher, so much later than the others'
};

class RanksTogether : public LaunchFault, public testing::WithParamInterface<Together> {};

TEST_P(RanksTogether, ThatASignalEndsAreNamedInOneLine) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  // However long they take to end one after the other: their watchers see all of them at once.
  std::vector<pid_t> watchers;
  for (const std::size_t rank : GetParam().ranks) {
    watchers.push_back(parent_of(processes[rank]));
    hold(watchers.back());
  }
  for (const std::size_t rank : GetParam().ranks) Program::signal(processes[rank], SIGKILL);
  for (const std::size_t rank : GetParam().ranks) {
    wait_until("the rank has ended", 20.0, [&] { return has_ended(processes[rank]); });
  }
  for (const pid_t watcher : watchers) {
    if (watcher == watchers.back()) std::this_thread::sleep_for(GetParam().last_comes);
    Program::signal(watcher, SIGCONT);
  }
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  EXPECT_TRUE(line.starts_with(
      fmt::format("error: {} on {}, {}, step", GetParam().text, host_name(), device().gpu)))
      << outcome.err;
  EXPECT_TRUE(line.find(" were ended by signal 9 (Killed)") != std::string::npos) << line;
  expect_clean_end(processes);
}

INSTANTIATE_TEST_SUITE_P(Some, RanksTogether,
                         testing::Values(Together{"Two", {1, 2}, "ranks 1 and 2"},
                                         Together{"All", {0, 1, 2, 3}, "ranks 0, 1, 2 and 3"},
                                         Together{"AllOnABusyHost",
                                                  {0, 1, 2, 3},
                                                  "ranks 0, 1, 2 and 3",
                                                  std::chrono::milliseconds(700)}),
                         [](const auto& each) { return each.param.name; });

using StoppedRanks = LaunchFault;

TEST_F(StoppedRanks, AreNamedByTheOthers) {
  const auto job = started(shared_gpu(), set({"parallel.timeout_seconds=5"}));
  const std::vector<pid_t> processes = processes_of(*job);
  for (const std::size_t rank : {1U, 2U}) Program::signal(processes[rank], SIGSTOP);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  for (const std::string& part : {std::string(" for ranks 1 and 2, which give no sign of life"),
                                  fmt::format("(rank 1 on {0}{1}; rank 2 on {0}{1})", host_name(),
                                              used(device(), device().gpu))}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  expect_clean_end(processes);
}

TEST_F(StoppedRanks, AreNamedAndEndedWhereNoneIsLeftToNotice) {
  const auto job = started(shared_gpu(), set({"parallel.timeout_seconds=3"}));
  const std::vector<pid_t> processes = processes_of(*job);
  for (const pid_t process : processes) Program::signal(process, SIGSTOP);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  EXPECT_TRUE(line.starts_with(
      fmt::format("error: ranks 0, 1, 2 and 3 on {}, {}, step", host_name(), device().gpu)))
      << outcome.err;
  EXPECT_NE(line.find(" were stopped by signal 19 (Stopped (signal)), and none of this host's "
                      "ranks has gone on for 5 s"),
            std::string::npos)
      << line;
  expect_clean_end(processes);
}

TEST_F(StoppedRanks, AreEndedInTimeByDefaultWhereNoneIsLeftToNotice) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  for (const pid_t process : processes) Program::signal(process, SIGSTOP);
  const Outcome outcome = end_after_fault(*job, 60.0);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(only_error(outcome).find("none of this host's ranks has gone on for 24 s"),
            std::string::npos)
      << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
}

// As a person stops a whole job, to go on with it later.
TEST_F(StoppedRanks, AreLeftAloneWhereTheLauncherIsStoppedToo) {
  const auto job = started(shared_gpu(), set({"parallel.timeout_seconds=4"}));
  const std::vector<pid_t> processes = processes_of(*job);
  hold(job->id());
  for (const pid_t process : processes) hold(process);
  std::this_thread::sleep_for(std::chrono::seconds(8));
  const int reached = checkpoint_steps(path("out")).back();
  job->signal(SIGCONT);
  for (const pid_t process : processes) Program::signal(process, SIGCONT);
  expect_checkpoint_after(reached);
  job->signal(SIGTERM);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, stopped) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  expect_nothing_left();
}

// A rank that ends while it is to write its checkpoint is a fault of its own.
TEST_P(LaunchedRank, ThatASignalEndsWhileItStopsIsNamed) {
  const auto job = started(shared_gpu());
  const pid_t rank = job->rank_process(1);
  hold(rank);
  job->signal(SIGTERM);
  wait_until("the request to stop has come", 20.0, [&] {
    const std::string status = read_file(fmt::format("/proc/{}/status", rank));
    const std::size_t at = status.find("ShdPnd:\t");
    return at != std::string::npos &&
           (std::stoull(status.substr(at + 8, 16), nullptr, 16) >> (SIGUSR1 - 1U) & 1U) != 0;
  });
  Program::signal(rank, GetParam().signal);
  if (GetParam().signal != SIGKILL) Program::signal(rank, SIGCONT);
  const Outcome outcome = end_after_fault(*job);
  // What was asked for counts: no such job is to be restarted.
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
  EXPECT_NE(only_error(outcome).find(fmt::format(" was ended by signal {} (", GetParam().signal)),
            std::string::npos)
      << outcome.err;
  expect_nothing_left();
}

TEST_F(LaunchFault, LauncherThatIsKilledTakesRanksAndDaemonAlong) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  job->signal(SIGKILL);
  EXPECT_EQ(job->wait().code, 128 + SIGKILL);
  expect_nothing_left();
  expect_clean_end(processes);
}

TEST_F(LaunchFault, MpirunThatIsKilledIsToldWithTheWayOn) {
  const auto job = started(shared_gpu());
  const std::vector<pid_t> processes = processes_of(*job);
  Program::signal(mpirun_of(*job), SIGKILL);
  const Outcome outcome = end_after_fault(*job);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  EXPECT_TRUE(
      line.starts_with("error: mpirun was ended by signal 9 (Killed), and the ranks with "
                       "it; the run can go on from step "))
      << outcome.err;
  expect_clean_end(processes);
}

TEST_F(LaunchFault, HostThatCannotBeReachedIsTold) {
  const auto started_on = [&](const std::string& hosts) {
    return run(with_script(launch({"--gpus", "none", "--hosts", hosts}), "mpirun",
                           "#!/bin/bash\nexit 255\n"));
  };
  const Outcome outcome = started_on("localhost,node-b");
  EXPECT_EQ(outcome.code, 1);
  const std::string line = only_error(outcome);
  EXPECT_TRUE(line.starts_with("error: mpirun did not start the job on localhost, node-b, "))
      << outcome.err;
  EXPECT_NE(line.find("(ssh HOST true)"), std::string::npos) << line;
  expect_nothing_left();

  ASSERT_EQ(run(launch({"--gpus", "none"}, set({"train.max_steps=3"}))).code, 0);
  const Outcome elsewhere = started_on("node-b,node-c");
  EXPECT_EQ(elsewhere.code, 1) << elsewhere.err;
  EXPECT_EQ(elsewhere.err.find("can go on"), std::string::npos)
      << "here is another run's checkpoint";
}

// Where mpirun fails no rank comes to refuse the folder.
TEST_F(LaunchFault, AnotherRunsFolderIsRefusedBeforeAnythingStarts) {
  ASSERT_EQ(run(launch({"--gpus", "none"}, set({"train.max_steps=3"}))).code, 0);
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_FALSE(steps.empty());
  const auto without_mpirun = [&](const Words& settings, const std::string& host = "localhost") {
    return run(
        with_script(launch({"--gpus", "none", "--max-restarts", "1", "--hosts", host}, settings),
                    "mpirun", "#!/bin/bash\nexit 1\n"));
  };
  for (const char* host : {"localhost", "node-b"}) {
    const Outcome refused = without_mpirun(set({"train.max_steps=9"}), host);
    EXPECT_EQ(refused.code, 2);
    EXPECT_EQ(
        refused.err,
        "error: out holds a run already; go on with it by --resume or choose another --out\n");
  }
  Words elsewhere = set({"train.max_steps=9"});
  elsewhere.insert(elsewhere.end(), {"--resume", "nowhere"});
  EXPECT_EQ(without_mpirun(elsewhere).err,
            "error: out holds another run already; choose another --out\n");
  // With --resume it is this job's.
  Words resumed = set({"train.max_steps=9"});
  resumed.emplace_back("--resume");
  const Outcome failed = without_mpirun(resumed);
  EXPECT_NE(failed.err.find(fmt::format("restart 1 of 1, from step {} ", steps.back())),
            std::string::npos)
      << failed.err;
}

TEST_F(LaunchFault, RestartsAndGoesOnBitExactly) {
  Launch command = launch(shared_gpu({"--max-restarts", "1"}), endless_job());
  command.timeout += device().start_seconds;  // once more
  const auto job = started(command);
  Program::signal(job->rank_process(1), SIGKILL);
  expect_restart_with_the_same_bits(*job, 128 + SIGKILL);
}

TEST_F(LaunchFault, RestartsFromTheNewestCheckpointThatIsWhole) {
  Launch command = launch(shared_gpu({"--max-restarts", "1"}), endless_job());
  command.timeout += device().start_seconds;  // once more
  const auto job = started(command);
  wait_until("there is a checkpoint to fall back to", 30.0,
             [&] { return checkpoint_steps(path("out")).size() >= 2; });
  // The launcher looks for a checkpoint only once no rank is left that could write a newer one:
  // ranks that are held instead would be woken by mpirun, and end what they had begun to write.
  const std::vector<pid_t> processes = processes_of(*job);
  hold(job->id());
  Program::signal(processes[1], SIGKILL);
  for (const pid_t process : processes) expect_gone(process);
  const int damaged = checkpoint_steps(path("out")).back();
  const fs::path newest = checkpoint(path("out"), damaged);
  fs::resize_file(newest, fs::file_size(newest) / 2);
  Program::signal(job->id(), SIGCONT);
  expect_restart_with_the_same_bits(*job, 128 + SIGKILL, damaged);
}

/// A job whose mpirun waits on once all ranks have ended, as for a host that is gone.
class StuckMpirun : public LaunchFault {
 protected:
  Outcome run_stuck(const Launch& command) const {
    return run(with_script(command, "mpirun", R"(#!/bin/bash
PATH=${PATH//"${0%/*}":/}
mpirun "$@"
sleep 40
)"));
  }

  void expect_refusal(const Outcome& outcome, const std::string& message) const {
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(only_error(outcome).find(message), std::string::npos) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "warning: mpirun has not ended the job 5 s "), 1U)
        << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, "; restart "), 0U) << outcome.err;
    expect_nothing_left();
  }
};

// A restart would go on with the very run that was to be left alone.
TEST_F(StuckMpirun, RestartsNothingThatRanksRefused) {
  expect_refusal(run_stuck(launch(shared_gpu({"--max-restarts", "2"}), {"--resume", "nowhere"})),
                 "--resume nowhere: no such file or folder");
}

TEST_F(StuckMpirun, RestartsNothingThatIsRefusedBeforeThereAreRanks) {
  expect_refusal(run_stuck(with(launch(shared_gpu({"--max-restarts", "2", "--reuse-mps"})),
                                "CUDA_MPS_PIPE_DIRECTORY", path("mine").string())),
                 "--reuse-mps: no MPS daemon answers in ");
}

// As that it is given up for, by which the later ones are not set aside yet.
TEST_F(LaunchFault, ThatCameToNothingGoesOnFromTheNamedCheckpointAgain) {
  const Words every_step = set({"checkpoint.every_steps=1", "checkpoint.keep=100"});
  Words three = every_step;
  three.insert(three.end(), {"--set", "train.max_steps=3"});
  ASSERT_EQ(run(launch({"--gpus", "none"}, three)).code, 0);
  Words first = set({"train.max_steps=2"}, every_step);
  first.insert(first.end(), {"--resume", "out/checkpoints/step-00000001.safetensors"});
  const Outcome outcome = run(with_script(
      launch({"--gpus", "none", "--max-restarts", "1"}, first), "mpirun",
      fmt::format(
          "#!/bin/sh\n[ -e {0} ] && PATH=${{PATH#*:}} && exec mpirun \"$@\"\ntouch {0}\nexit 3\n",
          path("failed").string())));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("restart 1 of 1, from out/checkpoints/step-00000001.safetensors"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("resuming at step 1 from "), std::string::npos) << outcome.err;
  // Where there is the best one alone the launcher knows what ranks will do.
  for (const int step : checkpoint_steps(path("out"))) fs::remove(checkpoint(path("out"), step));
  ASSERT_TRUE(fs::exists(path("out/checkpoints/best.safetensors")));
  Words resumed = set({"train.max_steps=4"}, every_step);
  resumed.emplace_back("--resume");
  fs::remove(path("failed"));
  const Outcome best = run(with_script(launch({"--gpus", "none", "--max-restarts", "1"}, resumed),
                                       "mpirun", "#!/bin/sh\nexit 3\n"));
  EXPECT_NE(best.err.find("(out/checkpoints/best.safetensors)"), std::string::npos) << best.err;
}

// As where a host does not answer: Open MPI's mpirun ends with 0, and leaves its ssh.
TEST_F(LaunchFault, StoppedBeforeItsRanksHaveBegunIsNotDone) {
  const std::string left = path("left").string();
  Program job(with_script(
      launch({"--gpus", "none"}, endless_job()), "mpirun",
      fmt::format(
          "#!/bin/sh\ntrap 'exit 0' USR1\nsleep 1000 &\necho $! >{0}.new\nmv {0}.new {0}\nwait\n",
          left)));
  wait_until("mpirun waits", 40.0, [&] { return fs::exists(left); });
  job.signal(SIGTERM);
  const Outcome outcome = end_after_fault(job);
  EXPECT_EQ(outcome.code, 128 + SIGTERM) << outcome.err;
  EXPECT_NE(outcome.err.find("warning: the job was ended before any of its ranks had begun"),
            std::string::npos)
      << outcome.err;
  const pid_t process = std::stoi(read_file(left));
  wait_until("what mpirun has left is ended", 10.0, [&] { return has_exited(process); });
}

TEST_F(LaunchFault, RestartWaitsAndIsBrokenOffByAStopSignal) {
  Program job(
      with_script(launch(shared_gpu({"--max-restarts", "1000"})), "mpirun", "#!/bin/sh\nexit 3\n"));
  wait_until("it has failed twice", 40.0,
             [&] { return job.err().find("; restart 2 of 1000, ") != std::string::npos; });
  // The signal is to come between two starts, however slow this host: while there is no mpirun.
  const std::string children = fmt::format("/proc/{0}/task/{0}/children", job.id());
  wait_until("it is held between two starts", 40.0, [&] {
    hold(job.id());
    if (read_file(children).empty()) return true;
    job.signal(SIGCONT);
    return false;
  });
  job.signal(SIGUSR1);
  job.signal(SIGCONT);
  const Outcome outcome = end_after_fault(job);
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_NE(
      outcome.err.find("the restart is called off; the run can go on from the start: there is "
                       "no checkpoint yet"),
      std::string::npos)
      << outcome.err;
  // With a second between two of them, more where the launcher was held.
  EXPECT_LE(static_cast<double>(occurrences(outcome.err, "; restart ")), outcome.seconds + 1.0);
  expect_nothing_left();
}

struct Refused {
  const char* name;
  Words options;
  std::string message;
};

class LaunchRefuses : public LaunchFault, public testing::WithParamInterface<Refused> {};

TEST_P(LaunchRefuses, BeforeAnythingRuns) {
  const Outcome outcome = run(launch(GetParam().options));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(GetParam().message), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(path("out")));
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(
    Each, LaunchRefuses,
    testing::Values(
        Refused{"NoShare", {"--sm-percent", "0"}, "--sm-percent: '0' is no whole number "},
        Refused{"TooLargeAShare",
                {"--sm-percent", "101"},
                "--sm-percent: '101' is no whole number from 1 to 100"},
        Refused{"NoRank", {"--ranks-per-gpu", "0"}, "--ranks-per-gpu 0: give a number from 1 on"},
        Refused{"MoreRanksThanAnyHostStarts",
                {"--ranks-per-gpu", "99999999", "--oversubscribe"},
                "--ranks-per-gpu 99999999: at most 4096"},
        Refused{"TooManyRanks", {"--ranks-per-gpu", "61"}, "--ranks-per-gpu 61: CUDA MPS takes "},
        Refused{"TooManyGpus", {"--gpus", "99"}, "--gpus 99: this host has "},
        Refused{"AnUnknownGpu", {"--gpus", "GPU-x"}, "--gpus: no GPU 'GPU-x' here"},
        Refused{"AShareOfOneRankAlone",
                {"--sm-percent", "50"},
                "--sm-percent 50: only processes that share a GPU can be limited"},
        Refused{"AShareOfNoGpu",
                {"--gpus", "none", "--ranks-per-gpu", "2", "--sm-percent", "50"},
                "--sm-percent 50: the ranks compute on CPUs"},
        Refused{"ADaemonOfNoGpu",
                {"--gpus", "none", "--reuse-mps"},
                "--reuse-mps: the ranks compute on CPUs"},
        Refused{"OtherHosts", {"--hosts", "node-a"}, "this host is none of the job's"},
        Refused{"NoHost", {"--hosts", ","}, "no host is named there"}),
    [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tandem::cli
