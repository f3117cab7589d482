#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/run_folder.h"

// SIGTERM, SIGINT and SIGUSR1 to one process, to one rank, to mpirun: a checkpoint, a code that
// says so, and a run that goes on as if nothing had been.

namespace tandem::cli {
namespace {

/// Whom the signal reaches.
enum class Target { process, first_rank, second_rank, mpirun };

struct Case {
  Target target;
  int signal;
  int code;  ///< of the process that was started
};

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const char* targets[] = {"Process", "FirstRank", "SecondRank", "Mpirun"};
  return std::string(targets[static_cast<int>(info.param.target)]) +
         (info.param.signal == SIGTERM   ? "Term"
          : info.param.signal == SIGUSR1 ? "Usr1"
                                         : "Int");
}

/// The ranks that it tells to stop have time to write what they stop with, on a slow disk too.
std::vector<std::pair<std::string, std::string>> patient_mpirun() {
  return {{"OMPI_MCA_odls_base_sigkill_timeout", "4"}};
}

class Signals : public RunTest, public testing::WithParamInterface<Case> {
 protected:
  /// Endless, and so quiet that mpirun, which reads nothing of its ranks between two signals, does
  /// not let them wait.
  static std::vector<std::string> long_epochs() { return endless({"data.train_size=27000"}); }

  Outcome interrupted(const Case& each, const std::string& out) {
    const int ranks = each.target == Target::process ? 1 : 2;
    Program program({.command = train_command(out, long_epochs(), ranks),
                     .folder = root(),
                     .environment = patient_mpirun()});
    wait_until("a few steps are done", 60.0, [&] {
      return occurrences(read_file(path(out + "/metrics.jsonl")), "\"train\"") >= 11;
    });
    switch (each.target) {
      case Target::process:
      case Target::mpirun:
        program.signal(each.signal);
        break;
      case Target::first_rank:
        Program::signal(program.rank_process(0), each.signal);
        break;
      case Target::second_rank:
        Program::signal(program.rank_process(1), each.signal);
        break;
    }
    return program.wait();
  }
};

TEST_P(Signals, LeaveACheckpointFromWhichTheRunGoesOnBitExactly) {
  const Case each = GetParam();
  const int ranks = each.target == Target::process ? 1 : 2;
  const Outcome outcome = interrupted(each, "out");
  ASSERT_FALSE(outcome.timed_out) << outcome.err;
  EXPECT_EQ(outcome.code, each.code) << outcome.err;
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_EQ(steps.size(), 1U) << outcome.err;
  const std::string log = read_file(path("out/train.log"));
  EXPECT_NE(log.find(fmt::format("stopped at step {} of ", steps[0])), std::string::npos) << log;
  EXPECT_NE(log.find("go on with --resume"), std::string::npos) << log;
  EXPECT_NE(outcome.err.find("go on with --resume"), std::string::npos) << outcome.err;
  // Five steps more, against a run that nobody stopped.
  const std::string end = "train.max_steps=" + std::to_string(steps[0] + 5);
  std::vector<std::string> more = set({end}, long_epochs());
  trained("whole", more, ranks);
  more.emplace_back("--resume");
  trained("out", more, ranks);
  EXPECT_EQ(train_losses(path("out")), train_losses(path("whole")));
  expect_same_checkpoint(checkpoint(path("out"), steps[0] + 5),
                         checkpoint(path("whole"), steps[0] + 5));
}

// Open MPI 4's mpirun gives the code of the first rank that failed where a rank stopped by itself,
// and 1 where it was told to stop itself: it then sends its ranks SIGTERM, and SIGKILL a second
// later (odls_base_sigkill_timeout), whatever codes they end with.
INSTANTIATE_TEST_SUITE_P(Targets, Signals,
                         testing::Values(Case{Target::process, SIGTERM, stopped},
                                         Case{Target::process, SIGINT, stopped},
                                         Case{Target::first_rank, SIGTERM, stopped},
                                         Case{Target::first_rank, SIGINT, stopped},
                                         Case{Target::second_rank, SIGTERM, stopped},
                                         Case{Target::second_rank, SIGINT, stopped},
                                         // Passed on to the ranks, and no more.
                                         Case{Target::mpirun, SIGUSR1, stopped},
                                         Case{Target::mpirun, SIGTERM, 1},
                                         Case{Target::mpirun, SIGINT, 1}),
                         name_of_case);

class LateSignals : public Signals {};

// As the second copy of a launcher's request: one meets the rank while it ends.
TEST_F(LateSignals, DoNotChangeHowARankEndsThatHasStopped) {
  Program program({.command = train_command("out", endless(), 2), .folder = root()});
  wait_until("a few steps are done", 60.0,
             [&] { return occurrences(read_file(path("out/metrics.jsonl")), "\"train\"") >= 11; });
  const pid_t rank = program.rank_process(1);
  while (program.running() && ::kill(rank, SIGUSR1) == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.code, stopped) << outcome.err;
  EXPECT_EQ(checkpoint_steps(path("out")).size(), 1U) << outcome.err;
}

using ReadersThatGo = RunTest;

// As `tandem train ... | head -1`.
TEST_F(ReadersThatGo, DoNotEndTheRun) {
  std::string line;
  for (const std::string& word : train_command("out", set({"train.epochs=60"}))) line += word + " ";
  const Outcome outcome =
      run({.command = {"bash", "-c", line + "2>&1 | head -n 1; exit ${PIPESTATUS[0]}"},
           .folder = root()});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.out, "\n"), 1U) << outcome.out;
  EXPECT_EQ(read_metrics(path("out"), "end").size(), 1U);
}

using SignalsInEvaluation = RunTest;

TEST_F(SignalsInEvaluation, KilledRunHasThatEpochAndEvaluatesItOnResume) {
  const std::vector<std::string> slow = set({"data.test_size=4000000", "train.epochs=2"});
  {
    Program program({.command = train_command("out", slow), .folder = root()});
    wait_until("the epoch is saved", 60.0,
               [&] { return checkpoint_steps(path("out")) == std::vector<int>{8}; });
    program.signal(SIGKILL);
    EXPECT_EQ(program.wait().code, 128 + SIGKILL);
  }
  EXPECT_TRUE(read_metrics(path("out"), "evaluation").empty());
  // The size of the test set may change; with the small one the rest takes no time.
  trained("out", set({"train.epochs=2"}, {"--resume"}));
  trained("whole", set({"train.epochs=2"}));
  const std::vector<Record> resumed = read_metrics(path("out"), "evaluation");
  const std::vector<Record> whole = read_metrics(path("whole"), "evaluation");
  ASSERT_EQ(resumed.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(resumed[i]["loss"], whole[i]["loss"]);
  expect_same_checkpoint(checkpoint(path("out"), 16), checkpoint(path("whole"), 16));
}

class SignalsBreakOffEvaluation : public RunTest, public testing::WithParamInterface<Case> {};

// An epoch after which checkpoint.every_epochs asks for no checkpoint.
TEST_P(SignalsBreakOffEvaluation, KeepsTheEpochAndEvaluatesItOnResume) {
  const Case each = GetParam();
  const int ranks = each.target == Target::process ? 1 : 2;
  const std::vector<std::string> epochs = set({"train.epochs=2", "checkpoint.every_epochs=5"});
  // Whom no signal reaches does its half. The other size would take minutes.
  const bool all = each.target == Target::process || each.target == Target::mpirun;
  const char* size = all ? "data.test_size=4000000" : "data.test_size=1000000";
  Program program({.command = train_command("out", set({size}, epochs), ranks),
                   .folder = root(),
                   .environment = patient_mpirun()});
  const pid_t target = each.target == Target::second_rank ? program.rank_process(1) : program.id();
  // A busy disk may have the checkpoint only after the shorter evaluation. But mpirun kills its
  // ranks some seconds behind the signal.
  wait_until("the epoch is over", 60.0, [&] {
    if (all) return checkpoint_steps(path("out")) == std::vector<int>{8};
    return read_file(path("out/metrics.jsonl")).find("\"step\": 8,") != std::string::npos;
  });
  Program::signal(target, each.signal);
  const Outcome outcome = program.wait();
  ASSERT_FALSE(outcome.timed_out) << outcome.err;
  EXPECT_EQ(outcome.code, each.code) << outcome.err;
  EXPECT_NE(read_file(path("out/train.log")).find("stopped at step 8 of 16"), std::string::npos)
      << outcome.err;
  EXPECT_TRUE(read_metrics(path("out"), "evaluation").empty());
  std::vector<std::string> resume = epochs;
  resume.emplace_back("--resume");
  trained("out", resume, ranks);
  trained("whole", epochs, ranks);
  const std::vector<Record> resumed = read_metrics(path("out"), "evaluation");
  const std::vector<Record> whole = read_metrics(path("whole"), "evaluation");
  ASSERT_EQ(resumed.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(resumed[i]["loss"], whole[i]["loss"]);
  expect_same_checkpoint(checkpoint(path("out"), 16), checkpoint(path("whole"), 16));
}

INSTANTIATE_TEST_SUITE_P(Targets, SignalsBreakOffEvaluation,
                         testing::Values(Case{Target::process, SIGTERM, stopped},
                                         Case{Target::second_rank, SIGTERM, stopped},
                                         Case{Target::mpirun, SIGTERM, 1}),
                         name_of_case);

}  // namespace
}  // namespace tandem::cli
