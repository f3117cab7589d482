#include <fmt/format.h>

#include <csignal>

#include "cli/run_folder.h"

// On a terminal one live line that is rewritten in place, elsewhere plain lines: alone and under
// mpirun, which gives its ranks pipes whatever it writes to itself.

namespace tandem::cli {
namespace {

constexpr const char* rewrite = "\r\x1b[K";  // what takes a live line away
constexpr const char* end_of_line = "\x1b[K";

class ProgressLine : public RunTest, public ::testing::WithParamInterface<int> {
 protected:
  /// Epochs without a record between their ends.
  static std::vector<std::string> options(int epochs = 2) {
    return set(
        {fmt::format("train.epochs={}", epochs), "data.train_size=6000", "train.log_every=1000"});
  }
};

// Until it is stopped: how many of its lines, ten a second, two epochs see depends on the machine.
TEST_P(ProgressLine, IsLiveOnATerminal) {
  Program program({.command = train_command("out", options(endless_epochs), GetParam()),
                   .folder = root(),
                   .environment = {{"TERM", "xterm"}},
                   .terminal = true});
  // Live lines end without a line feed; the epoch's last word stays as a whole line.
  wait_until("two epochs and some live lines are over", 40.0, [&] {
    const std::string& screen = program.screen();
    return !program.running() ||
           (occurrences(screen, "epoch 2: test top-1") > 0 && occurrences(screen, end_of_line) > 8);
  });
  const pid_t rank = GetParam() == 1 ? program.id() : program.rank_process(0);
  Program::signal(rank, SIGTERM);
  const Outcome outcome = program.wait();
  ASSERT_EQ(outcome.code, stopped) << outcome.out;
  EXPECT_GE(occurrences(outcome.out, rewrite), 2U);
  EXPECT_GT(occurrences(outcome.out, "img/s"), 4U);
  EXPECT_EQ(occurrences(outcome.out, "epoch 1: test top-1"), 1U);
  EXPECT_EQ(occurrences(outcome.out, "epoch 2: test top-1"), 1U);
  // The log has no control characters.
  EXPECT_EQ(read_file(path("out/train.log")).find('\x1b'), std::string::npos);
}

TEST_P(ProgressLine, TellsOfEvaluations) {
  const auto expect_told = [&](const std::vector<std::string>& command) {
    const Outcome outcome = run({.command = command,
                                 .folder = root(),
                                 .environment = {{"TERM", "xterm"}},
                                 .terminal = true});
    EXPECT_EQ(outcome.code, 0) << outcome.out;
    EXPECT_GE(occurrences(outcome.out, "\revaluated ["), 1U) << outcome.out;
    EXPECT_GE(occurrences(outcome.out, "/20,000  "), 1U) << outcome.out;
  };
  const std::vector<std::string> few_steps = set({"train.max_steps=2", "data.test_size=20000"});
  expect_told(train_command("out", few_steps, GetParam()));
  expect_told(on_ranks(GetParam(), {"eval", "out"}));
}

TEST_P(ProgressLine, IsPlainElsewhere) {
  const auto expect_plain = [&](const Outcome& outcome, const std::string& text) {
    ASSERT_EQ(outcome.code, 0) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos) << text;
    // One line an epoch, and on slow machines one every ten seconds.
    EXPECT_EQ(occurrences(text, "step 187/187"), 2U) << text;
    EXPECT_LE(occurrences(text, "img/s"), 2U + static_cast<std::size_t>(outcome.seconds / 10.0))
        << text;
  };
  // Into a file, with TERM of a terminal.
  const Outcome piped = run({.command = train_command("a", options(), GetParam()),
                             .folder = root(),
                             .environment = {{"TERM", "xterm"}}});
  expect_plain(piped, piped.err);
  // Started from a terminal, with the output led into a file.
  std::string line;
  for (const std::string& word : train_command("b", options(), GetParam())) line += word + " ";
  const Outcome led = run({.command = {"sh", "-c", line + ">log 2>&1"},
                           .folder = root(),
                           .environment = {{"TERM", "xterm"}},
                           .terminal = true});
  expect_plain(led, read_file(path("log")));
  EXPECT_EQ(led.out, "");
}

TEST_P(ProgressLine, CountsTheStepsThatMaxStepsLeavesOfAnEpoch) {
  const Outcome outcome = train("out", set({"train.max_steps=200"}, options()), GetParam());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "epoch 1/2  step 187/187"), 1U) << outcome.err;
  EXPECT_EQ(occurrences(outcome.err, "epoch 2/2  step 13/13"), 1U) << outcome.err;
}

TEST_P(ProgressLine, IsPlainOnADumbTerminal) {
  const Outcome outcome = run({.command = train_command("out", set({"train.epochs=1"}), GetParam()),
                               .folder = root(),
                               .environment = {{"TERM", "dumb"}},
                               .terminal = true});
  ASSERT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.out.find('\x1b'), std::string::npos) << outcome.out;
}

INSTANTIATE_TEST_SUITE_P(Ranks, ProgressLine, ::testing::Values(1, 2));

}  // namespace
}  // namespace tandem::cli
