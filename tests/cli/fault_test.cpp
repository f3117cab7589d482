#include <fmt/format.h>
#include <sys/resource.h>

#include <csignal>
#include <memory>
#include <regex>
#include <string>

#include "cli/fault_check.h"
#include "cli/message_check.h"
#include "cli/run_folder.h"

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

  std::unique_ptr<Program> start(int ranks, const std::vector<std::string>& options) {
    auto program = std::make_unique<Program>(Launch{
        .command = train_command("out", options, ranks), .folder = root(), .timeout = 120.0});
    wait_until("the first checkpoint is there", 40.0,
               [&] { return !checkpoint_steps(path("out")).empty(); });
    return program;
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

class FaultyRank : public Fault, public testing::WithParamInterface<int> {};

TEST_P(FaultyRank, ThatIsKilledTakesTheJobAlong) {
  const int rank = GetParam();
  const auto program = start(3, long_run());
  std::vector<pid_t> processes;
  for (int each = 0; each < 3; ++each) processes.push_back(program->rank_process(each));
  Program::signal(processes[static_cast<std::size_t>(rank)], SIGKILL);
  const Outcome outcome = end_after_fault(*program);
  // What ends is the launcher, which names the rank; the others cannot know.
  EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
  EXPECT_NE(outcome.err.find(fmt::format("process rank {} with PID", rank)), std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("error: "), std::string::npos) << outcome.err;
  for (const pid_t process : processes) expect_gone(process);
  expect_resumes(3, long_run());
}

TEST_P(FaultyRank, ThatHangsIsNamedAndEndedWithTheJob) {
  const int rank = GetParam();
  const std::vector<std::string> options = long_run({"parallel.timeout_seconds=4"});
  const auto program = start(3, options);
  std::vector<pid_t> processes;
  for (int each = 0; each < 3; ++each) processes.push_back(program->rank_process(each));
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
  const Outcome outcome = end_after_fault(*program);
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
