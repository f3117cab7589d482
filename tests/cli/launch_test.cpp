#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "cli/launched_job.h"
#include "cli/message_check.h"
#include "device/open_context.h"

// `tandem launch` with real mpirun. GPUs and the MPS daemon are made up (tests/launch), the ranks
// compute on the CPU: what they are started with, what becomes of the daemon, and restarts.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// The command on the first CPU that this test may use alone.
Launch on_one_cpu(Launch launch) {
  cpu_set_t usable;
  if (::sched_getaffinity(0, sizeof usable, &usable) != 0) throw std::runtime_error("no CPUs");
  int cpu = 0;
  while (!CPU_ISSET(cpu, &usable)) ++cpu;
  launch.command.insert(launch.command.begin(), {"taskset", "-c", std::to_string(cpu)});
  return launch;
}

class LaunchTest : public LaunchedJob {
 protected:
  std::string journal() const { return read_file(path("journal")); }

  /// As many daemons were started and ended, and nothing of them is left.
  void expect_daemons_ended(std::size_t daemons = 1) const {
    expect_nothing_left();
    EXPECT_EQ(occurrences(journal(), "start "), daemons) << journal();
    EXPECT_EQ(occurrences(journal(), "end "), daemons) << journal();
  }
};

TEST_F(LaunchTest, TrainsOnTheHostWhereThereIsNoGpu) {
  const Outcome outcome =
      run(with(launch({"--ranks-per-gpu", "2", "--oversubscribe"}), "FAKE_GPUS", ""));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("2 ranks on 1 host"), std::string::npos) << outcome.err;
  EXPECT_EQ(journal(), "");
  EXPECT_TRUE(fs::is_empty(path("run")));
  trained("plain", set({"train.device=cpu"}), 2);
  expect_same_checkpoint(checkpoint(path("out"), 32), checkpoint(path("plain"), 32));
}

TEST_F(LaunchTest, GivesEachRankItsGpuAndOneDaemon) {
  const auto program = started({"--ranks-per-gpu", "2", "--sm-percent", "40"});
  for (int rank = 0; rank < 4; ++rank) {
    const pid_t process = program->rank_process(rank);
    EXPECT_EQ(environment_of(process, "CUDA_VISIBLE_DEVICES"), rank < 2 ? "GPU-a" : "GPU-b");
    EXPECT_EQ(environment_of(process, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "40");
    const fs::path pipes = environment_of(process, "CUDA_MPS_PIPE_DIRECTORY");
    EXPECT_EQ(pipes.parent_path().parent_path(), path("run"));
    EXPECT_TRUE(fs::exists(pipes / "nvidia-cuda-mps-control.pid")) << pipes;
  }
  EXPECT_NE(journal().find(" GPU-a,GPU-b\n"), std::string::npos) << journal();
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 75);
  expect_daemons_ended();
}

TEST_F(LaunchTest, NeedsNoDaemonForOneRankPerGpu) {
  const auto program = started({"--gpus", "1,0"});
  EXPECT_EQ(environment_of(program->rank_process(0), "CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(environment_of(program->rank_process(1), "CUDA_VISIBLE_DEVICES"), "GPU-a");
  EXPECT_EQ(environment_of(program->rank_process(1), "CUDA_MPS_PIPE_DIRECTORY"), "/nonexistent");
  program->signal(SIGINT);
  EXPECT_EQ(program->wait().code, 75);
  EXPECT_EQ(journal(), "");
}

TEST_F(LaunchTest, EndsTheDaemonWithTheJob) {
  const Outcome outcome = run(launch({"--gpus", "1", "--ranks-per-gpu", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // At once: the launcher waits for it.
  EXPECT_TRUE(fs::is_empty(path("run")));
  expect_daemons_ended();
}

TEST_F(LaunchTest, StopsItsRanksWhereMpirunKeepsTheSignal) {
  const auto program = started(with_script(
      launch({"--gpus", "1", "--ranks-per-gpu", "2"}, endless_job()), "mpirun", R"(#!/bin/bash
trap : USR1
PATH=${PATH//"${0%/*}":/}
mpirun "$@" &
while kill -0 $! 2>/dev/null; do wait $!; done
wait $!
)"));
  program->signal(SIGTERM);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  expect_daemons_ended();
}

// As a batch system does that kills all that a job started.
TEST_F(LaunchTest, EndsTheDaemonItselfWhereTheGuardIsKilled) {
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  Program::signal(process_named("mps-guard"), SIGKILL);
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 75);
  EXPECT_TRUE(fs::is_empty(path("run")));
  expect_daemons_ended();
}

TEST_F(LaunchTest, RestartsFromTheStartWhereThereIsNoCheckpoint) {
  // The first job meets a daemon that does not start, and so does the second.
  const Outcome outcome = run(with(
      launch({"--gpus", "1", "--ranks-per-gpu", "2", "--max-restarts", "1"}), "FAKE_MPS", "fail"));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("restart 1 of 1, from the start: there is no checkpoint yet"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("all 1 restarts are used up"), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, DoesNotRestartWhatTheUserMustMend) {
  const Outcome outcome = run(
      launch({"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe", "--max-restarts", "5"},
             set({"train.global_batch=512"})));  // more than the samples, as the ranks find out
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("train.global_batch"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("restart"), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, SaysOnceWhyADaemonDoesNotStart) {
  const Outcome outcome =
      run(with(launch({"--gpus", "1", "--ranks-per-gpu", "2"}), "FAKE_MPS", "fail"));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  EXPECT_NE(
      outcome.err.find("the MPS daemon does not start (nvidia-cuda-mps-control ended with 1): "
                       "An instance of this daemon is already running"),
      std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_TRUE(fs::is_empty(path("run")));
}

TEST_F(LaunchTest, DryRunSaysAllAndStartsNothing) {
  const Outcome outcome = run(launch(
      {"--ranks-per-gpu", "2", "--sm-percent", "50", "--hosts", "localhost,node-b", "--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  for (const char* part :
       {"8 processes on 2 hosts, 4 on each: localhost, node-b",
        "process 3: Fake GPU (GPU-b), cores ", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=50",
        "MPS: 1 private daemon", "--host localhost:4,node-b:4", "launch-rank --job ", " -- train ",
        "srun --mpi=pmix --nodes=2"}) {
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  }
  EXPECT_EQ(journal(), "");
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(LaunchTest, KnowsItsHostByAnAddressToo) {
  const Words options{"--hosts", "192.0.2.1,127.0.0.1", "--dry-run"};
  const Outcome outcome = run(launch(options));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "4 processes on 2 hosts, 2 on each: "), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, "process 1: Fake GPU (GPU-b), cores "), 1U) << outcome.out;
  expect_one_message(run(launch(options, set({"train.epochz=2"}))), {"train.epochz: unknown key"});
}

TEST_F(LaunchTest, LeavesOutWhatMpirunSaysOnItsOwnHostByNameToo) {
  for (const auto& [hosts, quiet] :
       {std::pair("localhost", 1U), std::pair("node-b,localhost", 0U)}) {
    const Outcome outcome = run(launch({"--hosts", hosts, "--dry-run"}));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.out, " -q "), quiet) << outcome.out;
  }
}

TEST_F(LaunchTest, RefusesTwoNamesOfItsHost) {
  expect_one_message(run(launch({"--hosts", "localhost,node-b,127.0.0.1", "--dry-run"})),
                     {"--hosts localhost,node-b,127.0.0.1: localhost and 127.0.0.1 are both this "
                      "host; name each host once"});
}

TEST_F(LaunchTest, RefusesAGpuThatAProcessHoldsAlone) {
  const auto on = [&](const Words& options) {
    return with(launch(options), "FAKE_GPUS", "GPU-a:exclusive:busy GPU-b:exclusive");
  };
  const std::vector<std::string> parts{"GPU-a (Fake GPU) is in compute mode 'exclusive process'",
                                       "choose others with --gpus"};
  const Outcome planned = run(on({"--dry-run"}));
  EXPECT_EQ(planned.code, 2);
  expect_one_message(planned, parts);
  // What starts waits a while before, since an earlier job's MPS server may hold it.
  const Outcome started = run(on({}));
  EXPECT_EQ(started.code, 2);
  EXPECT_GE(started.seconds, 15.0);
  EXPECT_NE(started.err.find("a process still holds GPU-a (Fake GPU)"), std::string::npos)
      << started.err;
  for (const std::string& part : parts) {
    EXPECT_EQ(occurrences(started.err, part), 1U) << part << "\n" << started.err;
  }
  EXPECT_EQ(journal(), "");
  EXPECT_FALSE(fs::exists(path("out")));
  EXPECT_TRUE(fs::is_empty(path("run")));
  const Outcome other = run(on({"--gpus", "1,", "--dry-run"}));
  EXPECT_EQ(other.code, 0) << other.err;
}

TEST_F(LaunchTest, ADryRunTellsTheVariablesOfRanksOnTheCpu) {
  constexpr const char* backing = "OMPI_MCA_btl_vader_backing_directory";
  const Words options{"--gpus", "none", "--dry-run"};
  const Outcome outcome = run(launch(options));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string told = fmt::format(" {}=/dev/shm/tandem-job-{}-", backing, ::geteuid());
  EXPECT_NE(outcome.out.find(told), std::string::npos) << outcome.out;
  const Outcome own = run(with(launch(options), backing, "/tmp"));
  EXPECT_EQ(own.out.find(backing), std::string::npos) << "the user's: " << own.out;
}

TEST_F(LaunchTest, LetsMpirunSpeakWhereTheDebugLogIsWanted) {
  const auto mpirun_speaks = [&](const char* level) {
    const Launch planned = with(launch({"--gpus", "none", "--dry-run"}), "TANDEM_LOG", level);
    const Outcome outcome = run(planned);
    EXPECT_EQ(occurrences(outcome.out, " --oversubscribe --bind-to none "), 1U) << outcome.out;
    return occurrences(outcome.out, " -q ") == 0;
  };
  EXPECT_FALSE(mpirun_speaks(""));
  EXPECT_TRUE(mpirun_speaks("debug"));
}

TEST_F(LaunchTest, WarnsOfOtherUsersOnItsGpus) {
  // Process 1 is root's; root itself starts one of somebody else.
  std::unique_ptr<Program> program;
  if (::geteuid() == 0) {
    program = std::make_unique<Program>(Launch{
        .command = {"setpriv", "--reuid=65534", "--clear-groups", "sleep", "60"}, .folder = "/"});
    wait_until("the process is another user's", 10.0, [&] {
      struct stat facts {};
      const std::string process = fmt::format("/proc/{}", program->id());
      return ::stat(process.c_str(), &facts) == 0 && facts.st_uid != 0;
    });
  }
  const pid_t others = program ? program->id() : 1;
  const Launch planned = with(launch({"--dry-run"}), "FAKE_GPUS",
                              fmt::format("GPU-a:processes={},{} GPU-b:busy", ::getpid(), others));
  const Outcome outcome = run(planned);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err,
                        "warning: other users compute on GPUs of this job: 1 process on GPU-a "
                        "(Fake GPU); the ranks share them, or choose others with --gpus\n"),
            1U)
      << outcome.err;
}

TEST_F(LaunchTest, TellsAConfigThatDoesNotReadBeforeAnythingStarts) {
  for (const Words& options : {Words{"--dry-run"}, Words{"--gpus", "1", "--ranks-per-gpu", "2"}}) {
    const Outcome outcome = run(launch(options, set({"train.epochz=2"})));
    expect_one_message(outcome, {"train.epochz: unknown key"});
    EXPECT_EQ(outcome.out, "");
  }
  expect_one_message(run(with_driver({"launch", "--dry-run", "--", "train", "nosuch.toml"})),
                     {"nosuch.toml: no such file"});
  EXPECT_EQ(journal(), "") << "no daemon was started";
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(LaunchTest, RefusesNoGpusForAConfigOfThem) {
  const Words eval{"launch",    "--gpus", "none",  "--dry-run",        "--", "eval", "run.toml",
                   "--weights", "a",      "--set", "train.device=cuda"};
  expect_one_message(run(with_driver(eval)), {"--gpus none: the config's train.device is "});
  for (const Words& options : {Words{"--gpus", "none", "--dry-run"}, Words{"--gpus", "none"}}) {
    expect_one_message(
        run(launch(options, set({"train.device=cuda"}))),
        {"--gpus none: the config's train.device is \"cuda\"; leave --gpus none out, "
         "or set train.device = \"cpu\""});
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

class LaunchOnCpus : public LaunchTest {
 protected:
  /// Of a command of which nothing but its config says what it computes on.
  Launch launch_of(const Words& command, const Words& options) const {
    Words words{"launch"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return with_driver(words);
  }
  Launch training(const Words& options, const std::string& device = "cpu") const {
    const Words train = train_command("out", set({"train.device=" + device, "train.max_steps=1"}));
    return launch_of({train.begin() + 1, train.end()}, options);
  }
};

TEST_F(LaunchOnCpus, GetNoGpusByThemselves) {
  Words devices{"cpu"};
  if (!built_with_cuda()) devices.emplace_back("auto");
  for (const std::string& device : devices) {
    const Outcome outcome = run(training({"--dry-run", "--ranks-per-gpu", "1"}, device));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    for (const char* part :
         {"1 process on 1 host", "process 0: CPU, cores ", " CUDA_VISIBLE_DEVICES= "}) {
      EXPECT_EQ(occurrences(outcome.out, part), 1U) << part << "\n" << outcome.out;
    }
    EXPECT_EQ(occurrences(outcome.err, "warning: "), 0U) << outcome.err;
    // Nor the limits of GPUs.
    expect_one_message(run(on_one_cpu(training({"--ranks-per-gpu", "61"}, device))),
                       {"--ranks-per-gpu 61: the ranks compute on the CPU, and this host has 1 "
                        "CPU for them"});
  }
  const Launch eval = launch_of({"eval", "run.toml", "--set", "train.device=cpu"}, {"--dry-run"});
  EXPECT_EQ(occurrences(run(eval).out, "process 0: CPU, cores "), 1U);
  const Outcome outcome = run(training({"--ranks-per-gpu", "2", "--oversubscribe"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("2 ranks on 1 host"), std::string::npos) << outcome.err;
  EXPECT_EQ(journal(), "") << "a daemon was started";
}

// By the config, where the launcher can read it.
TEST_F(LaunchOnCpus, OfOtherHostsGetNoGpusByThemselves) {
  const Words there{"--hosts", "node-a,node-b", "--dry-run"};
  const Outcome outcome = run(training(there));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "2 processes on 2 hosts"), 1U) << outcome.out;
  EXPECT_EQ(occurrences(outcome.out, "--gpus none"), 2U) << outcome.out;  // of mpirun and srun
  EXPECT_EQ(outcome.err, "");
  Words none = there;
  none.insert(none.end(), {"--gpus", "none"});
  expect_one_message(run(training(none, "cuda")),
                     {"--gpus none: the config's train.device is \"cuda\"; "});
  EXPECT_EQ(run(launch_of({"train", "nosuch.toml"}, none)).code, 0) << "it is theirs to read";
}

TEST_F(LaunchOnCpus, GetGpusThatAreNamedWithAWarning) {
  const Outcome outcome = run(training({"--dry-run", "--gpus", "2"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "2 processes on 1 host"), 1U) << outcome.out;
  EXPECT_EQ(
      occurrences(outcome.err,
                  "warning: --gpus 2: the config's train.device is \"cpu\": the ranks compute "
                  "on the CPU, and GPUs that are dealt to them stand idle; leave --gpus out, "
                  "or give --gpus none\n"),
      1U)
      << outcome.err;
}

TEST_F(LaunchTest, ReadsTheTimeForMpisStartBeforeItsRanksDo) {
  const Outcome outcome = run(with(launch({"--gpus", "1"}), "TANDEM_START_SECONDS", "soon"));
  expect_one_message(outcome, {"TANDEM_START_SECONDS='soon' is not a number of seconds"});
  EXPECT_EQ(outcome.err.find("rank"), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, FoldedRanksAreOneProcess) {
  const Outcome outcome =
      run(launch({"--ranks-per-gpu", "4", "--colocation", "folded", "--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 processes on 1 host"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("--set parallel.folded_ranks=4\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("MPS: "), std::string::npos) << outcome.out;
}

// As of a run that was started with folded ranks.
TEST_F(LaunchTest, SaysWhereItsProcessesCarryRanksThatTheConfigFolds) {
  const Words folded = set({"parallel.folded_ranks=2"});
  const std::string told =
      "each of the 2 processes on a GPU carries 2 folded ranks, as the config's "
      "parallel.folded_ranks says; --set parallel.folded_ranks=1 makes them ranks themselves";
  for (const Words& how :
       {Words{"--ranks-per-gpu", "2", "--dry-run"},
        Words{"--ranks-per-gpu", "2", "--colocation", "processes", "--dry-run"}}) {
    const Outcome outcome = run(launch(how, folded));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(occurrences(outcome.err, told), 1U) << outcome.err;
  }
  for (const Words& how :
       {Words{"--dry-run"}, Words{"--ranks-per-gpu", "4", "--colocation", "folded", "--dry-run"}}) {
    EXPECT_EQ(occurrences(run(launch(how, folded)).err, " folded ranks"), 0U);
  }
}

// CLI11 takes them for lists.
TEST_F(LaunchTest, TakesWordsInBracketsAsTheyAre) {
  const Outcome outcome = run(launch({"--gpus", "none"}, set({"train.max_steps=1"}), "[a, b]"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(path("[a, b]") / "metrics.jsonl")) << outcome.err;
}

TEST_F(LaunchTest, StartsNoMoreRanksThanCpusUnlessTheyAreMeant) {
  const Outcome refused = run(on_one_cpu(launch({"--gpus", "none", "--ranks-per-gpu", "2"})));
  expect_one_message(refused, {"--ranks-per-gpu 2: the ranks compute on the CPU, and this "
                               "host has 1 CPU for them",
                               "--oversubscribe"});
  EXPECT_FALSE(fs::exists(path("out")));
  // The processes look at their host again.
  const Outcome outcome = run(on_one_cpu(launch(
      {"--gpus", "none", "--ranks-per-gpu", "2", "--oversubscribe"}, set({"train.max_steps=1"}))));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("2 ranks on 1 host"), std::string::npos) << outcome.err;
}

TEST_F(LaunchTest, RefusesRanksOnCpusThatDoNotFitTheMemory) {
  const Words huge =
      set({"train.global_batch=16777216", "data.height=128", "data.width=128"});  // some 100 TiB
  for (const Words& how : {Words{"--ranks-per-gpu", "2", "--oversubscribe"},
                           Words{"--ranks-per-gpu", "2", "--colocation", "folded"}}) {
    Words options = how;
    options.insert(options.end(), {"--gpus", "none"});
    const Outcome outcome = run(launch(options, huge));
    expect_one_message(outcome,
                       {"training does not fit the memory of this host: ", " of activations for ",
                        " are available; about ", " at once fit", ": lower train.global_batch"});
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(LaunchTest, StartsTrainingCommandsAlone) {
  const Outcome outcome = run(with_driver({"launch", "--", "models"}));
  expect_one_message(outcome, {"tandem launch starts train, bench or eval, not 'models'"});
  expect_one_message(run(with_driver({"launch", "--dry-run", "--", "train", ""})),
                     {"tandem launch -- train: the config's path is empty"});
}

// Before mpirun, whose own words would stand behind the ranks'.
TEST_F(LaunchTest, RefusesWhatTheRanksWould) {
  for (const char* command : {"train", "bench", "eval"}) {
    const Words words{"launch", "--gpus", "none", "--", command, "run.toml", "--foo"};
    expect_one_message(
        run(with_driver(words)),
        {fmt::format("tandem {0}: unknown option '--foo'; see tandem {0}", command)});
    const Words late{"launch", "--gpus", "none", "--", command, "run.toml", "--dry-run"};
    expect_one_message(run(with_driver(late)),
                       {fmt::format("unknown option '--dry-run'; it is one of tandem launch, which "
                                    "stand before --: tandem launch --dry-run ... -- {}; ",
                                    command)});
  }
  const Words bench{"launch", "--gpus",   "none",      "--dry-run", "--",
                    "bench",  "run.toml", "--seconds", "0.5",       "--layers"};
  EXPECT_EQ(run(with_driver(bench)).code, 0);
  const Words eval{"launch", "--gpus", "none", "--dry-run", "--", "eval", "out", "--weights", "a"};
  EXPECT_EQ(run(with_driver(eval)).code, 0);
  for (const Words& options : {Words{"--gpus", "none", "--ranks-per-gpu", "3", "--oversubscribe"},
                               Words{"--ranks-per-gpu", "3", "--colocation", "folded"}}) {
    Words dry_run = options;
    dry_run.emplace_back("--dry-run");
    for (const Words& each : {options, dry_run}) {
      expect_one_message(run(launch(each)), {"train.global_batch: global batch 32 does not divide ",
                                             "; take a multiple of "});
    }
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(LaunchTest, NeedsMpirun) {
  Launch bare = launch({"--gpus", "none"});
  bare = with(bare, "PATH", "/nowhere");
  expect_one_message(run(bare), {"mpirun is not on PATH", "install Open MPI"});
}

TEST_F(LaunchTest, IsNotStartedByMpirun) {
  Launch twice = launch({"--gpus", "none"});
  const Words words = twice.command;
  twice.command = mpirun(1, {words.begin() + 1, words.end()});
  expect_one_message(run(twice), {"start it without mpirun"});
}

/// Jobs that use a daemon of the test's own, whose server a fault has spoilt.
class LaunchOnASpoiltServer : public LaunchTest {
 protected:
  LaunchOnASpoiltServer() {
    fs::create_directories(pipes_);
    Launch start = with_driver({});
    start.command = {"nvidia-cuda-mps-control", "-d"};
    EXPECT_EQ(run(on_daemon(start)).code, 0);
  }
  void TearDown() override {
    write_file(pipes_ / "quit", "");
    wait_until("the daemon has ended", 20.0,
               [&] { return !fs::exists(pipes_ / "nvidia-cuda-mps-control.pid"); });
  }

  /// `times` it still says that it is spoilt.
  Outcome job_on(int times) const {
    write_file(pipes_ / "fault", fmt::format("{}\n", times));
    return run(on_daemon(launch({"--gpus", "1", "--ranks-per-gpu", "2", "--reuse-mps"},
                                set({"train.max_steps=3"}))));
  }

  const fs::path pipes_ = path("mine");

 private:
  Launch on_daemon(const Launch& command) const {
    Launch made = with(command, "CUDA_MPS_PIPE_DIRECTORY", pipes_.string());
    made = with(made, "CUDA_MPS_LOG_DIRECTORY", pipes_.string());
    return with(made, "CUDA_VISIBLE_DEVICES", "GPU-a");
  }
};

TEST_F(LaunchOnASpoiltServer, AreRefusedWithOneLine) {
  const Outcome outcome = job_on(1'000'000);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  const std::string server = read_file(pipes_ / "nvidia-cuda-mps-control.pid");
  for (const std::string& part :
       {std::string("error: --reuse-mps: a client's device fault has spoilt the MPS server "),
        "shutdown_server " + server.substr(0, server.find('\n')) + " -f"}) {
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err << "\nwanted: " << part;
  }
  EXPECT_FALSE(fs::exists(path("out")));
}

TEST_F(LaunchOnASpoiltServer, RunOnceItHasRecovered) {
  const Outcome outcome = job_on(3);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_file(pipes_ / "fault"), "0\n");
}

}  // namespace
}  // namespace tandem::cli
