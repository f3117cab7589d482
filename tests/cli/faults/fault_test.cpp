#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <regex>
#include <string>
#include <thread>

#include "cli/faults/fault_check.h"
#include "cli/message_check.h"
#include "cli/run_folder.h"
#include "support/process.h"

// Faults injected into running jobs: a rank that is killed, a rank that hangs, a disk that is full.
// Each must end the whole job soon, say so in one line, and leave a checkpoint to go on from.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

/// A long run with checkpoints, of which the first is there when a fault is injected.
class Fault : public RunTest {
 protected:
  static std::vector<std::string> long_run(std::vector<std::string> more = {}) {
    more.insert(more.end(), {"train.global_batch=30", "checkpoint.every_steps=20"});
    return endless(more);
  }

  std::unique_ptr<Program> start(
      int ranks, const std::vector<std::string>& options,
      const std::vector<std::pair<std::string, std::string>>& environment = {}) {
    auto program = std::make_unique<Program>(Launch{.command = train_command("out", options, ranks),
                                                    .folder = root(),
                                                    .environment = environment});
    wait_until("the first checkpoint is there", 40.0,
               [&] { return !checkpoint_steps(path("out")).empty(); });
    return program;
  }

  static std::vector<pid_t> processes_of(const Program& program, int ranks) {
    std::vector<pid_t> processes;
    for (int rank = 0; rank < ranks; ++rank) processes.push_back(program.rank_process(rank));
    return processes;
  }

  /// The newest checkpoint loads, and the run goes on from it.
  void expect_resumes(int ranks, const std::vector<std::string>& options) {
    const std::vector<int> steps = checkpoint_steps(path("out"));
    ASSERT_FALSE(steps.empty());
    std::vector<std::string> more = options;
    more.emplace_back("--resume");
    const Outcome outcome =
        train("out", set({"train.max_steps=" + std::to_string(steps.back() + 3)}, more), ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(fmt::format("resuming at step {} ", steps.back())),
              std::string::npos)
        << outcome.err;
    EXPECT_EQ(train_losses(path("out")).rbegin()->first, steps.back() + 3);
  }
};

struct DeadRank {
  int ranks;
  int rank;
  int signal;
  const char* name;
};

class KilledRank : public Fault, public testing::WithParamInterface<DeadRank> {};

TEST_P(KilledRank, IsNamedAndTakesTheJobAlong) {
  const auto [ranks, rank, signal, name] = GetParam();
  const auto program = start(ranks, long_run());
  const std::vector<pid_t> processes = processes_of(*program, ranks);
  Program::signal(processes[static_cast<std::size_t>(rank)], signal);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
  const std::string line = only_error(outcome);
  const std::string begin = "error: step ";
  ASSERT_TRUE(line.starts_with(begin)) << outcome.err;
  EXPECT_GE(std::stoi(line.substr(begin.size())), 20) << line;
  for (const std::string& part :
       {fmt::format(": rank {} on {} ended without a word", rank, host_name()),
        std::string("go on with --resume; the last checkpoint is out/checkpoints/step-")}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  for (const pid_t process : processes) expect_gone(process);
  expect_resumes(ranks, long_run());
}

INSTANTIATE_TEST_SUITE_P(Each, KilledRank,
                         testing::Values(DeadRank{2, 0, SIGKILL, "FirstOfTwo"},
                                         DeadRank{2, 1, SIGKILL, "SecondOfTwo"},
                                         DeadRank{3, 0, SIGKILL, "FirstOfThree"},
                                         DeadRank{3, 1, SIGKILL, "SecondOfThree"},
                                         DeadRank{3, 2, SIGSEGV, "CrashedOfThree"}),
                         [](const auto& each) { return each.param.name; });

// It is stopped before, so that the other is sure to wait for it.
TEST_F(KilledRank, IsNamedWithWhatItIsWaitedForIn) {
  const auto program = start(2, long_run());
  const std::vector<pid_t> processes = processes_of(*program, 2);
  hold(processes[1]);
  std::this_thread::sleep_for(std::chrono::seconds(4));
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*program);
  const std::string line = only_error(outcome);
  // As in FaultyRank.
  const std::regex waited(
      "ended without a word, waited for in (all_reduce.* elements\\)|the update of a host's shared "
      "weights): killed");
  EXPECT_TRUE(std::regex_search(line, waited)) << line;
  for (const pid_t process : processes) expect_gone(process);
}

TEST_F(KilledRank, IsNotNamedWhereMpirunItselfIsKilled) {
  // Where Open MPI may leave what it then leaves.
  const auto program = start(
      3, long_run(),
      {{"TMPDIR", root().string()}, {"OMPI_MCA_btl_vader_backing_directory", root().string()}});
  const std::vector<pid_t> processes = processes_of(*program, 3);
  program->signal(SIGKILL);
  for (const pid_t process : processes) expect_gone(process);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
}

/// A job of three ranks whose first step takes longer than mpirun's patience, in that step.
class KilledRankInALongStep : public Fault {
 protected:
  std::unique_ptr<Program> start_long_step() {
    const std::vector<std::string> options =
        set({"data.train_size=3000000", "train.global_batch=3000000", "train.accumulate=100000"});
    auto program = std::make_unique<Program>(
        Launch{.command = train_command("out", options, 3), .folder = root()});
    wait_until("the first step is near", 60.0, [&] {
      return read_file(path("out/train.log")).find("memory a rank") != std::string::npos;
    });
    for (const pid_t process : processes_of(*program, 3)) wait_for_computing(process);
    return program;
  }

 private:
  /// Long enough that a rank is past what is left of its start.
  static void wait_for_computing(pid_t process) {
    const double enough = processor_seconds(process) + 0.25;
    wait_until("the rank computes", 60.0, [&] { return processor_seconds(process) >= enough; });
  }
};

TEST_F(KilledRankInALongStep, IsNamedByOneThatComputes) {
  const auto program = start_long_step();
  const std::vector<pid_t> processes = processes_of(*program, 3);
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  const std::string line = only_error(outcome);
  EXPECT_TRUE(line.starts_with("error: step 1: rank 1 on ")) << outcome.err;
  EXPECT_TRUE(line.ends_with(", and start again: there is no checkpoint yet")) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

// As a batch system stops a job, and kills then who is slow.
TEST_F(KilledRankInALongStep, IsNotNamedWhereItWasToldToStop) {
  const auto program = start_long_step();
  const std::vector<pid_t> processes = processes_of(*program, 3);
  for (const pid_t process : processes) Program::signal(process, SIGTERM);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  Program::signal(processes[1], SIGKILL);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

// That kills the ranks one after the other, before the step ends at which they would stop.
TEST_F(KilledRankInALongStep, IsNotNamedWhereMpirunKillsAll) {
  const auto program = start_long_step();
  const std::vector<pid_t> processes = processes_of(*program, 3);
  program->signal(SIGTERM);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("stopped at"), std::string::npos) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
}

class FaultyRank : public Fault, public testing::WithParamInterface<int> {};

TEST_P(FaultyRank, ThatHangsIsNamedAndEndedWithTheJob) {
  const int rank = GetParam();
  const std::vector<std::string> options = long_run({"parallel.timeout_seconds=4"});
  const auto program = start(3, options);
  const std::vector<pid_t> processes = processes_of(*program, 3);
  Program::signal(processes[static_cast<std::size_t>(rank)], SIGSTOP);
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "error: "), 1U) << outcome.err;
  const std::size_t at = outcome.err.find("error: step ");
  ASSERT_NE(at, std::string::npos) << outcome.err;
  const std::string line = outcome.err.substr(at, outcome.err.find('\n', at) - at);
  // Ranks of a host wait for each other's gradients, and for the update of weights that they share.
  const std::regex waited(
      "waited 4 s in (all_reduce.* elements\\)|the update of a host's shared weights) for rank");
  EXPECT_TRUE(std::regex_search(line, waited)) << line;
  for (const std::string& part :
       {fmt::format("for rank {}, which gives no sign of life (rank {} on ", rank, rank),
        std::string("parallel.timeout_seconds"),
        std::string("the last checkpoint is out/checkpoints/step-")}) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  for (const pid_t process : processes) expect_gone(process);
  expect_resumes(3, options);
}

// Rank 0 is the one that otherwise speaks for all.
TEST_F(FaultyRank, ThatHangsIsGoneInTimeByDefault) {
  const auto program = start(2, long_run());
  const pid_t other = program->rank_process(1);
  Program::signal(program->rank_process(0), SIGSTOP);
  const Outcome outcome = end_after_fault(*program, 60.0);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("for rank 0, which gives no sign of life"), std::string::npos)
      << outcome.err;
  expect_gone(other);
}

INSTANTIATE_TEST_SUITE_P(Ranks, FaultyRank, testing::Values(0, 2));

/// Files of a process may not grow beyond so many bytes from now on: a write then fails in the
/// middle, as on a full disk.
void limit_files(pid_t process, std::size_t bytes) {
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ASSERT_EQ(::prlimit(process, RLIMIT_FSIZE, &limit, nullptr), 0);
}

/// The process gets no more address space: half of what it has now is more than it may have.
void limit_memory(pid_t process) {
  const std::string status = read_file(fmt::format("/proc/{}/status", process));
  const std::string name = "VmSize:";
  const std::size_t bytes = std::stoull(status.substr(status.find(name) + name.size())) * 512;
  const rlimit limit{.rlim_cur = bytes, .rlim_max = bytes};
  ASSERT_EQ(::prlimit(process, RLIMIT_AS, &limit, nullptr), 0);
}

// Evaluations and checkpoints ask for some each time. Of several ranks: memory_fault_test.cpp.
TEST_F(Fault, NoMemoryInMidRunIsNoMistakeOfTheUsersAndCanBeResumed) {
  const std::vector<std::string> options = long_run({"train.eval_every=1"});
  // Each block of 4 KiB is asked of the system then, which else gives none again that was freed,
  // and no thread has addresses kept for it, of which a run could live on.
  const auto program =
      start(2, options, {{"MALLOC_MMAP_THRESHOLD_", "4096"}, {"MALLOC_ARENA_MAX", "1"}});
  limit_memory(program->rank_process(0));
  const Outcome outcome = end_after_fault(*program);
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const std::string line = only_error(outcome);
  // Whichever it misses first, and there may be none left to look for the last checkpoint.
  const std::regex told(
      "^error: (out of memory in the middle of the run; look what else takes it, and go on with "
      "--resume.*|no thread can be started: there is no memory for its stack.*) \\(rank 0 on " +
      host_name() + "(, GPU-[^,)]+)?, step [0-9]+\\)$");
  EXPECT_TRUE(std::regex_search(line, told)) << outcome.err;
  expect_resumes(2, options);
}

class FullDisk : public Fault, public testing::WithParamInterface<int> {
 protected:
  pid_t writer(const Program& program) const {
    return GetParam() == 1 ? program.id() : program.rank_process(0);
  }
};

TEST_P(FullDisk, WhileACheckpointIsWritten) {
  const int ranks = GetParam();
  const std::vector<std::string> options = long_run({"train.log_every=1000"});
  const auto program = start(ranks, options);
  limit_files(writer(*program), 100'000);
  const Outcome outcome = end_after_fault(*program);
  expect_one_message(outcome,
                     {"cannot write 'out/checkpoints/step-", "File too large",
                      "go on with --resume", "the last checkpoint is out/checkpoints/step-"},
                     1);
  for (const fs::directory_entry& entry : fs::directory_iterator(path("out/checkpoints"))) {
    EXPECT_EQ(entry.path().filename().string().find(".tmp."), std::string::npos) << entry.path();
  }
  expect_resumes(ranks, options);
}

// No later one asks what became of it. The evaluation before it is short, so that it is written but
// once.
TEST_P(FullDisk, WhileTheLastCheckpointIsWritten) {
  const int ranks = GetParam();
  const std::vector<std::string> options =
      set({"data.train_size=20000", "train.epochs=2", "train.log_every=50", "train.device=cpu"});
  const auto program = start(ranks, options);
  wait_until("the second epoch is under way", 60.0, [&] {
    return read_file(path("out/metrics.jsonl")).find("\"step\": 650") != std::string::npos;
  });
  limit_files(writer(*program), 100'000);
  expect_one_message(end_after_fault(*program),
                     {"cannot write 'out/checkpoints/step-00001250.safetensors'", "File too large",
                      "the last checkpoint is out/checkpoints/step-00000625.safetensors"},
                     1);
  EXPECT_TRUE(read_metrics(path("out"), "end").empty());
  expect_resumes(ranks, options);
}

TEST_P(FullDisk, WhileMetricsAreWritten) {
  const int ranks = GetParam();
  trained("out", set({"train.max_steps=20"}, long_run()), ranks);
  // Goes on without checkpoints: those would fail before the metrics.
  std::vector<std::string> options = set({"checkpoint.every_steps=0"}, long_run());
  options.emplace_back("--resume");
  const auto program = start(ranks, options);
  wait_until("it goes on", 30.0,
             [&] { return occurrences(read_file(path("out/metrics.jsonl")), "\"train\"") >= 22; });
  limit_files(writer(*program), fs::file_size(path("out/metrics.jsonl")) + 500);
  const Outcome outcome = end_after_fault(*program);
  expect_one_message(
      outcome, {"cannot write 'out/metrics.jsonl': File too large", "go on with --resume"}, 1);
  expect_resumes(ranks, long_run());
}

TEST_P(FullDisk, WhileTheLogIsWritten) {
  const int ranks = GetParam();
  fs::create_directories(path("out"));
  fs::create_symlink("/dev/full", path("out/train.log"));
  const Outcome outcome = train("out", {}, ranks);
  expect_one_message(outcome,
                     {"out/train.log", "No space left on device",
                      "mend that and start again: there is no checkpoint yet"},
                     1);
  EXPECT_EQ(outcome.err.find("--resume"), std::string::npos) << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, FullDisk, testing::Values(1, 2));

}  // namespace
}  // namespace tandem::cli
