#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/run_folder.h"
#include "support/process.h"

// Ranks that hang in a way that nobody sees from outside: no signal has stopped them, and they wait
// for no other rank.

namespace tandem::cli {
namespace {

class Standing : public RunTest {
 protected:
  /// `command` with a run of hours, and such a time-out of each kind.
  std::unique_ptr<Program> start(const std::vector<std::string>& command, const char* call) const {
    auto program = std::make_unique<Program>(
        Launch{.command = command,
               .folder = root(),
               .environment = {{"LD_PRELOAD", TANDEM_HANGING_CALLS},
                               {"TANDEM_HANGING_CALL", call},
                               {"TANDEM_HANGING_FILE", path("hang").string()}}});
    return program;
  }

  static std::vector<std::string> with_time_outs(std::vector<std::string> assignments) {
    assignments.insert(assignments.end(),
                       {"parallel.timeout_seconds=4", "checkpoint.timeout_seconds=3"});
    return assignments;
  }
  static std::vector<std::string> settings(const std::vector<std::string>& more = {}) {
    return endless(with_time_outs(more));
  }

  void hang() const { write_file(path("hang"), ""); }

  static void expect_line(const Outcome& outcome, const std::string& pattern) {
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    const std::string line = only_error(outcome);
    EXPECT_TRUE(std::regex_search(line, std::regex("^error: " + pattern))) << outcome.err;
  }

  /// Of one that computes on the CPU, where nothing that takes long comes before steps.
  static void wait_for_steps(pid_t process) {
    wait_until("steps are under way", 60.0, [&] { return processor_seconds(process) > 4.0; });
  }

  /// Of a run into path("out"), whose first step comes late where kernels are chosen for a GPU.
  void wait_for_training() const {
    wait_until("steps are recorded", 60.0, [&] {
      return read_file(path("out/metrics.jsonl")).find("\"train\"") != std::string::npos;
    });
  }

  /// With its GPU, where it computes on one.
  std::string place(int rank) const {
    return fmt::format("\\(rank {} on {}(, GPU-[^,)]+)?", rank, host_name());
  }
};

/// A command, with what it takes besides and what lasts for hours in it.
struct Lasting {
  std::vector<std::string> words;
  std::vector<std::string> assignments;
};

class StandingRanks : public Standing, public testing::WithParamInterface<Lasting> {};

// Mostly by rank 0, but it is not the first where it was silent for longer before.
TEST_P(StandingRanks, AllAtOnceAreToldByOne) {
  if (GetParam().words[0] == "eval") trained("weights", set({"train.device=cpu"}));
  std::vector<std::string> arguments = GetParam().words;
  auto assignments = GetParam().assignments;
  assignments.emplace_back("train.device=cpu");
  const auto more = settings(assignments);
  arguments.insert(arguments.end(), more.begin(), more.end());
  const bool trains = arguments[0] == "train";
  const auto program = start(on_ranks(2, arguments), "clock");
  const std::vector<pid_t> processes{program->rank_process(0), program->rank_process(1)};
  for (const pid_t process : processes) wait_for_steps(process);
  hang();
  const auto told_by = [&](int rank) {
    return fmt::format("look what process {} is at, or raise parallel.timeout_seconds {}",
                       processes[static_cast<std::size_t>(rank)], place(rank));
  };
  expect_line(
      end_after_fault(*program),
      fmt::format("nothing has moved for [0-9.]+ s, and no other rank is waited for; "
                  "({}|{}){}",
                  told_by(0), told_by(1), trains ? ", step [0-9]+\\); go on with --resume" : ""));
  for (const pid_t process : processes) expect_gone(process);
}

INSTANTIATE_TEST_SUITE_P(Commands, StandingRanks,
                         testing::Values(Lasting{{"train", "run.toml"}, {}},
                                         Lasting{{"bench", "run.toml", "--seconds", "3600"}, {}},
                                         Lasting{{"eval", "run.toml", "--weights",
                                                  "weights/checkpoints/step-00000032.safetensors"},
                                                 {"data.test_size=20000000"}}),
                         [](const auto& each) { return each.param.words[0]; });

// Both have their turn before the launcher, which stands still meanwhile, ends either: the first
// one after 6 s, the second one after 8.5 s. The latter leaves the word to the other for 4 s.
TEST_F(Standing, ThoseThatComeToItAtOneMomentAreToldOnce) {
  const auto program = start(train_command("out", settings({"train.device=cpu"}), 2), "clock");
  const std::vector<pid_t> processes{program->rank_process(0), program->rank_process(1)};
  wait_for_training();
  hold(program->id());
  hang();
  std::this_thread::sleep_for(std::chrono::seconds(10));
  program->signal(SIGCONT);
  expect_line(end_after_fault(*program),
              "nothing has moved for [0-9.]+ s, .*\\(rank [01] on " + host_name());
  for (const pid_t process : processes) expect_gone(process);
}

class StandingStarts : public Standing, public testing::WithParamInterface<int> {};

// The others wait for it, where there are any.
TEST_P(StandingStarts, WhileThePlanIsMadeAreTold) {
  hang();
  std::vector<std::string> arguments{"train", "run.toml"};
  const auto more = settings({"train.device=cpu"});  // what hangs are oneDNN's kernels
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto program = start(on_ranks(GetParam(), arguments), "plan");
  const Outcome outcome = end_after_fault(*program);
  expect_line(outcome, "nothing has moved for [0-9.]+ s, .*" +
                           (GetParam() == 1 ? "\\(" + host_name() : place(0)) + ", step 0\\)$");
}

INSTANTIATE_TEST_SUITE_P(Ranks, StandingStarts, testing::Values(1, 2));

TEST_F(Standing, MetricsThatTheDiskDoesNotTakeEndTheJob) {
  const auto program = start(train_command("out", settings(), 2), "write");
  wait_for_training();
  hang();
  expect_line(end_after_fault(*program),
              ".*/metrics\\.jsonl: waited 3 s for it; look at the disk or the network that it lies "
              "on, or raise checkpoint.timeout_seconds " +
                  place(0) + ", step [0-9]+\\); go on with --resume once it answers$");
}

TEST_F(Standing, OneThatIsAloneIsToldByItself) {
  const auto program = start(train_command("out", settings()), "clock");
  wait_for_training();
  hang();
  const Outcome outcome = end_after_fault(*program);
  expect_line(outcome, "nothing has moved for [0-9.]+ s, .*, step [0-9]+\\); go on with --resume");
}

// As one is by Ctrl-Z.
TEST_F(Standing, AStoppedProcessGoesOnLater) {
  const auto program = start(train_command("out", settings()), "clock");
  wait_for_training();
  hold(program->id());
  std::this_thread::sleep_for(std::chrono::seconds(8));
  ASSERT_TRUE(program->running());
  Program::signal(program->id(), SIGCONT);
  Program::signal(program->id(), SIGTERM);
  EXPECT_EQ(program->wait().code, stopped);
}

TEST_F(Standing, ACheckpointThatTheDiskDoesNotTakeEndsTheJob) {
  const auto program =
      start(train_command("out", settings({"checkpoint.every_steps=50"}), 2), "sync");
  const std::vector<pid_t> processes{program->rank_process(0), program->rank_process(1)};
  wait_for_training();
  hang();
  const Outcome outcome = end_after_fault(*program);
  expect_line(outcome,
              ".*/checkpoints/step-[0-9]+\\.safetensors: waited 3[.0-9]* s for it; look at the "
              "disk or the network that it lies on, or raise checkpoint.timeout_seconds " +
                  place(0) + ", step [0-9]+\\); go on with --resume once it answers");
  for (const pid_t process : processes) expect_gone(process);
  // Training had gone on, for it waits only where the next one is due.
  std::smatch steps;
  ASSERT_TRUE(std::regex_search(outcome.err, steps, std::regex("step-([0-9]+).*, step ([0-9]+)")))
      << outcome.err;
  EXPECT_GT(std::stoi(steps[2]), std::stoi(steps[1]));
  EXPECT_LE(std::stoi(steps[2]), std::stoi(steps[1]) + 50);
}

class WeightsThatHang : public Standing {
 protected:
  void SetUp() override {
    trained("out");
    ASSERT_TRUE(std::filesystem::exists(path(weights)));
  }

  /// Expects the command to end by a line that names the weights.
  void expect_end(const std::vector<std::string>& words,
                  const std::vector<std::string>& assignments = {}) const {
    std::vector<std::string> arguments = words;
    const auto more = set(with_time_outs(assignments));
    arguments.insert(arguments.end(), more.begin(), more.end());
    hang();
    const auto program = start(on_ranks(2, arguments), "map");
    const Outcome outcome = program->wait();
    EXPECT_LT(outcome.seconds, 50.0);
    expect_line(outcome,
                "[^ ]*step-00000032.safetensors: waited 3 s for it; look at the disk or the "
                "network that it lies on, or raise checkpoint.timeout_seconds " +
                    place(0) + "[^)]*\\)$");
  }

  static constexpr const char* weights = "out/checkpoints/step-00000032.safetensors";
};

TEST_F(WeightsThatHang, EndARunThatGoesOn) {
  expect_end({"train", "run.toml", "--out", "out", "--resume"});
}

TEST_F(WeightsThatHang, EndARunThatStartsFromThem) {
  expect_end({"train", "run.toml", "--out", "more"}, {fmt::format("train.init=\"{}\"", weights)});
}

TEST_F(WeightsThatHang, EndAnEvaluation) { expect_end({"eval", "run.toml", "--weights", weights}); }

}  // namespace
}  // namespace tandem::cli
