#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>

#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "train/placement_key.h"

// `tandem launch` with real mpirun. GPUs and the MPS daemon are made up (tests/launch), the ranks
// compute on the CPU: what they are started with, what becomes of the daemon, and restarts.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

class LaunchTest : public RunTest {
 protected:
  LaunchTest() {
    fs::create_directories(path("run"));
    fs::permissions(path("run"), fs::perms::owner_all);
  }

  /// tandem launch with options, of a training run on the CPU.
  Launch launch(const Words& options, const Words& training = {}) const {
    Words words{"launch"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    const Words train = train_command("out", set({"train.device=cpu"}, training));
    words.insert(words.end(), train.begin() + 1, train.end());
    return with_driver(words);
  }

  /// `tandem` with these words, where the made-up driver has two GPUs.
  Launch with_driver(const Words& words) const {
    return {.command = tandem(words),
            .folder = root(),
            .environment = {{"PATH", TANDEM_FAKE_MPS_FOLDER ":" + std::string(std::getenv("PATH"))},
                            {"LD_LIBRARY_PATH", TANDEM_FAKE_NVML_FOLDER},
                            {"FAKE_GPUS", "GPU-a GPU-b"},
                            {"FAKE_MPS_JOURNAL", path("journal").string()},
                            {"XDG_RUNTIME_DIR", path("run").string()}}};
  }

  static Launch with(Launch launch, const std::string& name, const std::string& value) {
    launch.environment.emplace_back(name, value);
    return launch;
  }

  std::string journal() const { return read_file(path("journal")); }

  /// As many daemons were started and ended, and no folder of theirs is left.
  void expect_nothing_left(std::size_t daemons = 1) const {
    wait_until("the MPS daemon has ended", 20.0, [&] { return fs::is_empty(path("run")); });
    EXPECT_EQ(occurrences(journal(), "start "), daemons) << journal();
    EXPECT_EQ(occurrences(journal(), "end "), daemons) << journal();
  }

  /// Started, with a checkpoint there. It would run for long.
  std::unique_ptr<Program> started(const Words& options, Words training = {}) const {
    training = set({"train.global_batch=32", "train.epochs=500", "train.eval_every=100000",
                    "checkpoint.every_epochs=100000", "checkpoint.every_steps=20"},
                   training);
    auto program = std::make_unique<Program>(launch(options, training));
    wait_until("the first checkpoint is there", 40.0,
               [&] { return !checkpoint_steps(path("out")).empty(); });
    return program;
  }

  /// The process of this test's job whose command line has the word.
  pid_t process_named(const std::string& word) const {
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string command = read_file(entry.path() / "cmdline");
      if (command.find('\0' + word + '\0' + path("run").string()) != std::string::npos) {
        return std::stoi(entry.path().filename().string());
      }
    }
    throw std::runtime_error("no process " + word);
  }

  static std::string environment_of(pid_t process, const std::string& name) {
    const std::string all = '\0' + read_file(fmt::format("/proc/{}/environ", process));
    const std::size_t at = all.find('\0' + name + "=");
    if (at == std::string::npos) return "not set";
    return all.c_str() + at + 1 + name.size() + 1;
  }
};

TEST_F(LaunchTest, TrainsOnTheHostWhereThereIsNoGpu) {
  const Outcome outcome = run(with(launch({"--ranks-per-gpu", "2"}), "FAKE_GPUS", ""));
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
  expect_nothing_left();
}

TEST_F(LaunchTest, NeedsNoDaemonForOneRankPerGpu) {
  const auto program = started({"--gpus", "1,0"});
  EXPECT_EQ(environment_of(program->rank_process(0), "CUDA_VISIBLE_DEVICES"), "GPU-b");
  EXPECT_EQ(environment_of(program->rank_process(1), "CUDA_VISIBLE_DEVICES"), "GPU-a");
  EXPECT_EQ(environment_of(program->rank_process(1), "CUDA_MPS_PIPE_DIRECTORY"), "not set");
  program->signal(SIGINT);
  EXPECT_EQ(program->wait().code, 75);
  EXPECT_EQ(journal(), "");
}

TEST_F(LaunchTest, EndsTheDaemonWithTheJob) {
  const Outcome outcome = run(launch({"--gpus", "1", "--ranks-per-gpu", "2"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // At once: the launcher waits for it.
  EXPECT_TRUE(fs::is_empty(path("run")));
  expect_nothing_left();
}

TEST_F(LaunchTest, StopsItsRanksWhereMpirunKeepsTheSignal) {
  fs::create_directory(path("bin"));
  const fs::path wrapper = path("bin") / "mpirun";
  std::ofstream(wrapper) << R"(#!/bin/bash
trap : USR1
PATH=${PATH//"${0%/*}":/}
mpirun "$@" &
while kill -0 $! 2>/dev/null; do wait $!; done
wait $!
)";
  fs::permissions(wrapper, fs::perms::owner_all);
  const std::string before = std::getenv("PATH");
  ASSERT_EQ(::setenv("PATH", (path("bin").string() + ":" + before).c_str(), 1), 0);
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  ASSERT_EQ(::setenv("PATH", before.c_str(), 1), 0);
  program->signal(SIGTERM);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  expect_nothing_left();
}

class LaunchSignals : public LaunchTest, public testing::WithParamInterface<int> {};

TEST_P(LaunchSignals, LetTheRanksWriteTheirCheckpoint) {
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  program->signal(GetParam());
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_NE(outcome.err.find("go on with --resume"), std::string::npos) << outcome.err;
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Each, LaunchSignals, testing::Values(SIGINT, SIGTERM, SIGHUP),
                         [](const auto& each) {
                           return each.param == SIGINT    ? "Int"
                                  : each.param == SIGTERM ? "Term"
                                                          : "Hup";
                         });

TEST_F(LaunchTest, ThatIsKilledTakesRanksAndDaemonAlong) {
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  const std::vector<pid_t> ranks{program->rank_process(0), program->rank_process(1)};
  program->signal(SIGKILL);
  EXPECT_EQ(program->wait().code, 128 + SIGKILL);
  for (const pid_t rank : ranks) {
    wait_until("the rank is gone", 20.0, [&] { return ::kill(rank, 0) != 0; });
  }
  expect_nothing_left();
}

TEST_F(LaunchTest, EndsTheDaemonWhenARankIsKilled) {
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  Program::signal(program->rank_process(1), SIGKILL);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  // One line with rank, host, GPU and step.
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  const std::size_t at = outcome.err.find("error: rank 1 on ");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const std::string line = outcome.err.substr(at, outcome.err.find('\n', at) - at);
  EXPECT_NE(line.find(", GPU-a, step "), std::string::npos) << line;
  EXPECT_TRUE(line.ends_with(" was ended by signal 9 (Killed)")) << line;
  EXPECT_GE(std::stoi(line.substr(line.find("step ") + 5)), 20) << line;
  expect_nothing_left();
}

// As a batch system does that kills all that a job started.
TEST_F(LaunchTest, EndsTheDaemonItselfWhereTheGuardIsKilled) {
  const auto program = started({"--gpus", "1", "--ranks-per-gpu", "2"});
  Program::signal(process_named("mps-guard"), SIGKILL);
  program->signal(SIGTERM);
  EXPECT_EQ(program->wait().code, 75);
  EXPECT_TRUE(fs::is_empty(path("run")));
  expect_nothing_left();
}

TEST_F(LaunchTest, EndsTheDaemonWhenARankHangs) {
  const auto program =
      started({"--gpus", "1", "--ranks-per-gpu", "2"}, set({"parallel.timeout_seconds=4"}));
  Program::signal(program->rank_process(1), SIGSTOP);
  const Outcome outcome = program->wait();
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  expect_nothing_left();
}

TEST_F(LaunchTest, RestartsAndGoesOnBitExactly) {
  const Words steps = set({"train.max_steps=300"});
  const auto program =
      started({"--gpus", "1", "--ranks-per-gpu", "2", "--max-restarts", "2"}, steps);
  Program::signal(program->rank_process(1), SIGKILL);
  const Outcome outcome = program->wait();
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("the job ended with code 137; restart 1 of 2, from step "),
            std::string::npos)
      << outcome.err;
  // A daemon for each start.
  expect_nothing_left(2);
  trained("plain",
          set({"train.device=cpu", "train.global_batch=32", "train.epochs=500",
               "train.eval_every=100000", "checkpoint.every_epochs=100000",
               "checkpoint.every_steps=20", "train.max_steps=300"}),
          2);
  expect_same_checkpoint(checkpoint(path("out"), 300), checkpoint(path("plain"), 300));
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
  const Outcome outcome = run(launch(
      {"--gpus", "none", "--ranks-per-gpu", "2", "--max-restarts", "5"}, set({"train.epochz=3"})));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("train.epochz: unknown key"), std::string::npos) << outcome.err;
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

TEST_F(LaunchTest, UsesARunningDaemonOnRequestAndLeavesItAlone) {
  const Words options{"--gpus", "1", "--ranks-per-gpu", "2", "--reuse-mps"};
  const fs::path pipes = path("mine");
  const Launch reusing = with(launch(options), "CUDA_MPS_PIPE_DIRECTORY", pipes.string());
  const Outcome none = run(reusing);
  EXPECT_EQ(none.code, 2) << none.err;
  EXPECT_NE(none.err.find("--reuse-mps: no MPS daemon answers in '" + pipes.string() + "'"),
            std::string::npos)
      << none.err;
  fs::create_directories(pipes);
  Launch daemon = with(with_driver({}), "CUDA_MPS_PIPE_DIRECTORY", pipes.string());
  daemon.environment.emplace_back("CUDA_VISIBLE_DEVICES", "GPU-a");
  daemon.command = {"nvidia-cuda-mps-control", "-d"};
  ASSERT_EQ(run(daemon).code, 0);
  EXPECT_EQ(run(reusing).code, 0);
  EXPECT_EQ(journal(), "start " + pipes.string() + " GPU-a\n");
  write_file(pipes / "quit", "");
  wait_until("the daemon has ended", 10.0,
             [&] { return journal().find("end ") != std::string::npos; });
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

TEST_F(LaunchTest, FoldedRanksAreOneProcess) {
  const Outcome outcome =
      run(launch({"--ranks-per-gpu", "4", "--colocation", "folded", "--dry-run"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 processes on 1 host"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("--set parallel.folded_ranks=4\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("MPS"), std::string::npos) << outcome.out;
}

TEST_F(LaunchTest, TakesWhatTheTunerChose) {
  ConfigTable table = ConfigTable::from_file(path("run.toml"));
  table.override_key("train.device=cpu");
  const PlacementStore store(path("cache") / "placements");
  store.save(placement_key(read_run_config(table), {.name = "Fake GPU", .count = 2}),
             {.placement = {.ranks_per_device = 4, .sm_percent = 30},
              .loader_workers = 3,
              .date = "2026-05-06T07:08:09Z"});
  const Words automatic{"--ranks-per-gpu", "auto", "--dry-run"};
  const Launch tuned = with(launch(automatic), "TANDEM_CACHE_DIR", path("cache").string());
  const Outcome outcome = run(tuned);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("8 processes on 1 host"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" --sm-percent 30 "), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find(" --set data.workers=3\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("tuned on 2026-05-06T07:08:09Z: 4 processes of 30 %, 3 loader "
                             "workers each"),
            std::string::npos)
      << outcome.err;
  // The command's own number of workers stays, and what was tuned for one batch fits no other.
  Launch own =
      with(launch(automatic, set({"data.workers=1"})), "TANDEM_CACHE_DIR", path("cache").string());
  EXPECT_EQ(run(own).out.find("data.workers=3"), std::string::npos);
  Launch other = with(launch(automatic, set({"train.global_batch=64"})), "TANDEM_CACHE_DIR",
                      path("cache").string());
  const Outcome not_tuned = run(other);
  EXPECT_NE(not_tuned.err.find("not tuned yet: one rank on each device; run tandem tune run.toml"),
            std::string::npos)
      << not_tuned.err;
  EXPECT_NE(not_tuned.out.find("2 processes on 1 host"), std::string::npos) << not_tuned.out;
}

struct Refused {
  const char* name;
  Words options;
  std::string message;
};

class LaunchRefuses : public LaunchTest, public testing::WithParamInterface<Refused> {};

TEST_P(LaunchRefuses, BeforeAnythingRuns) {
  const Outcome outcome = run(launch(GetParam().options));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(GetParam().message), std::string::npos) << outcome.err;
  EXPECT_EQ(journal(), "");
  EXPECT_FALSE(fs::exists(path("out")));
}

INSTANTIATE_TEST_SUITE_P(
    Each, LaunchRefuses,
    testing::Values(
        Refused{"NoShare", {"--sm-percent", "0"}, "--sm-percent: Value "},
        Refused{"TooLargeAShare", {"--sm-percent", "101"}, "--sm-percent: Value "},
        Refused{"NoRank", {"--ranks-per-gpu", "0"}, "--ranks-per-gpu 0: give a number from 1 on"},
        Refused{"TooManyRanks", {"--ranks-per-gpu", "49"}, "CUDA MPS takes 48 processes a GPU"},
        Refused{"TooManyGpus", {"--gpus", "3"}, "--gpus 3: this host has 2 GPUs"},
        Refused{"AnUnknownGpu", {"--gpus", "GPU-x"}, "--gpus: no GPU 'GPU-x' here"},
        Refused{"AShareOfOneRankAlone",
                {"--sm-percent", "50"},
                "--sm-percent 50: only processes that share a GPU can be limited"},
        Refused{"OtherHosts", {"--hosts", "node-a"}, "this host is none of the job's"},
        Refused{"NoHost", {"--hosts", ","}, "no host is named there"}),
    [](const auto& each) { return each.param.name; });

TEST_F(LaunchTest, StartsTrainingCommandsAlone) {
  const Outcome outcome = run(with_driver({"launch", "--", "models"}));
  expect_one_message(outcome, {"tandem launch starts train, bench or eval, not 'models'"});
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

}  // namespace
}  // namespace tandem::cli
