#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/faulty_device.h"
#include "support/process.h"

// Faults of the own device of a rank that shares it with three others.

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

// A job that such a fault ends has failed with code 1, which is neither a mistake of the user's nor
// a stop: it would be restarted where that is asked for.

// The server of an MPS client that faults tells all of its clients, but not whose fault it was: so
// which of them speaks is not certain.
TEST_F(FaultyDevice, EndsTheJobWithOneLine) {
  const auto job = started_faulty({}, set({"parallel.timeout_seconds=10"}));
  const std::vector<pid_t> processes = processes_of(*job);
  order({1}, "astray");
  const Outcome outcome = end_after_fault(*job);
  const std::string line =
      expect_line(outcome, 1,
                  {"CUDA failed: ", "any of ranks 0, 1, 2 and 3", "go on with --resume", "(rank ",
                   fmt::format(" on {}, {}, step ", host_name(), device().gpu)});
  RecordProperty("told", line);
  expect_clean_end(processes);
}

TEST_F(FaultyDevice, IsLeftBehindByARestartThatGoesOnBitExactly) {
  const auto job = started_faulty({"--max-restarts", "1"}, set({"parallel.timeout_seconds=10"}));
  order({1}, "astray");
  expect_restart_with_the_same_bits(*job, 1);
}

struct Hung {
  const char* name;
  std::vector<int> ranks;
  std::string text;
};

class HungDevice : public FaultyDevice, public testing::WithParamInterface<Hung> {};

TEST_P(HungDevice, IsNamedAndEndedWithTheJob) {
  const auto job = started_faulty({}, set({"parallel.timeout_seconds=5"}));
  const std::vector<pid_t> processes = processes_of(*job);
  order(GetParam().ranks, "spin");
  const Outcome outcome = end_after_fault(*job);
  std::vector<std::string> parts{"error: step ", "waited 5 s in the step's end", GetParam().text,
                                 "go on with --resume"};
  for (const int rank : GetParam().ranks) parts.push_back(place_of(rank));
  expect_line(outcome, 1, parts);
  expect_clean_end(processes);
}

// Of rank 0 too, which otherwise speaks for all.
INSTANTIATE_TEST_SUITE_P(
    Some, HungDevice,
    testing::Values(Hung{"OfTheFirst",
                         {0},
                         " for rank 0, which gives signs of life, but whose device does not get "
                         "that far"},
                    Hung{"OfAnother",
                         {1},
                         " for rank 1, which gives signs of life, but whose device does not get "
                         "that far"},
                    Hung{"OfTwo",
                         {1, 2},
                         " for ranks 1 and 2, which give signs of life, but whose devices do not "
                         "get that far"}),
    [](const auto& each) { return each.param.name; });

// With all that comes behind the time-out.
TEST_F(FaultyDevice, ThatHangsIsGoneInTimeByDefault) {
  const auto job = started_faulty({}, {});
  const std::vector<pid_t> processes = processes_of(*job);
  order({1}, "spin");
  const Outcome outcome = end_after_fault(*job, 60.0);
  expect_line(outcome, 1, {"error: step ", "waited 20 s in the step's end", place_of(1)});
  expect_clean_end(processes);
}

/// Faults behind a step that the run evaluates after, for longer than any test takes.
class FaultyDeviceInAnEvaluation : public FaultyDevice {
 protected:
  /// Its line names the step before.
  void expect_end(const std::string& fault,
                  const std::function<std::vector<std::string>(int step)>& parts) {
    const auto job = started_faulty(
        {}, set({"train.eval_every=1", "train.eval_batch=256", "checkpoint.every_steps=0",
                 "data.test_size=20000000", "parallel.timeout_seconds=10"}));
    const std::vector<pid_t> processes = processes_of(*job);
    const double before = processor_seconds(processes[1]);
    wait_until("it evaluates", 60.0,
               [&] { return processor_seconds(processes[1]) > before + 1.0; });
    const std::vector<int> steps = checkpoint_steps(path("out"));
    ASSERT_EQ(steps.size(), 1U);
    order({1}, fault);
    const Outcome outcome = end_after_fault(*job);
    expect_line(outcome, 1, parts(steps[0]));
    EXPECT_EQ(checkpoint_steps(path("out")), steps);
    expect_clean_end(processes);
  }
};

// As in a step, nobody can say whose fault it was.
TEST_F(FaultyDeviceInAnEvaluation, EndsTheJobWithOneLine) {
  expect_end("astray", [&](int step) {
    return std::vector{fmt::format(" on {}, {}, step {}", host_name(), device().gpu, step)};
  });
}

// Though the others work on and wait for nothing.
TEST_F(FaultyDeviceInAnEvaluation, ThatHangsIsNamedAndEndedWithTheJob) {
  expect_end("spin", [&](int step) {
    return std::vector{fmt::format("error: step {}: waited 10 s in the evaluation of a batch for "
                                   "rank 1, which gives signs of life, but whose device does not "
                                   "get that far",
                                   step),
                       place_of(1)};
  });
}

// The others have had all that they need of its step, and would evaluate.
TEST_F(HungDevice, BehindTheLastStepIsNamedBeforeTheOthersEvaluate) {
  const int steps = device().checkpoint_every + 100;
  const Words settings = settings_of_a_long_end(steps, set({"parallel.timeout_seconds=10"}));
  const auto job = started_and_hung_behind(launch(shared_gpu(), endless_job(settings)), 1, steps);
  const std::vector<pid_t> processes = processes_of(*job);
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 1,
              {fmt::format("error: step {}: waited 10 s in the step's end", steps),
               " for rank 1, which gives signs of life, but whose device does not get that far",
               place_of(1), "go on with --resume"});
  expect_clean_end(processes);
}

// Nothing of any rank gets on then, so that nobody can say which one it is.
TEST_F(HungDevice, IsToldWhereItLeavesNoRoomForTheOthers) {
  const auto job = started_faulty({}, set({"parallel.timeout_seconds=5"}));
  const std::vector<pid_t> processes = processes_of(*job);
  order({1}, "flood");
  const Outcome outcome = end_after_fault(*job);
  expect_line(outcome, 1,
              {"error: step ", "waited 5 s in the step's end", "signs of life", "go on with",
               fmt::format(" on {}, {}", host_name(), device().gpu)});
  expect_clean_end(processes);
}

/// Faults of commands that have nothing to go on from.
class HungDeviceOf : public FaultyDevice {
 protected:
  void expect_end(Program& job, const std::string& fault, std::vector<std::string> parts) {
    const std::vector<pid_t> processes = processes_of(job);
    order({1}, fault);
    const Outcome outcome = end_after_fault(job);
    parts.emplace_back("look at the hosts");
    expect_line(outcome, 1, parts);
    for (const pid_t process : processes) expect_gone(process);
    expect_nothing_left();
  }

  const std::string of_rank_1_ =
      " for rank 1, which gives signs of life, but whose device does not get that far";
};

// What the device that hangs keeps from being taken down would otherwise keep the line back too.
TEST_F(HungDeviceOf, ABenchmarkIsNamedAndEndedWithTheJob) {
  const auto job = started_faulty_bench({"parallel.timeout_seconds=5"});
  expect_end(*job, "spin", {"error: waited 5 s in the step's end", of_rank_1_, place_of(1)});
}

TEST_F(HungDeviceOf, ABenchmarkIsToldWhereItLeavesNoRoomForTheOthers) {
  const auto job = started_faulty_bench({"parallel.timeout_seconds=5"});
  expect_end(*job, "flood",
             {"error: waited 5 s in the step's end", "signs of life",
              fmt::format(" on {}, {}", host_name(), device().gpu)});
}

// The others wait for nothing until they have evaluated their shares.
TEST_F(HungDeviceOf, TandemEvalIsNamedAndEndedWithTheJob) {
  trained("weights", set(device().settings, set({"train.max_steps=1"})));
  const auto job = started_faulty_command(
      {"eval", "weights"},
      {"train.eval_batch=64", "data.test_size=20000000", "parallel.timeout_seconds=5"});
  expect_end(*job, "spin",
             {"error: waited 5 s in the evaluation of a batch", of_rank_1_, place_of(1)});
}

// Nobody waits for its device then but itself, and the other ranks for its choices.
TEST_F(HungDevice, WhileItsRankChoosesKernelsIsToldAndEndedWithTheJob) {
  fs::create_directories(path("orders"));
  write_file(path("orders/first-0"), "spin");
  Launch command = faulty(launch(shared_gpu(), endless_job(set({"parallel.timeout_seconds=5"}))));
  // Where nothing is chosen yet.
  Program job(with(std::move(command), "TANDEM_CACHE_DIR", path("no choices").string()));
  const std::vector<pid_t> processes = processes_of(job);
  wait_until("the order is taken", device().start_seconds,
             [&] { return !job.running() || !fs::exists(path("orders/first-0")); });
  const Outcome outcome = end_after_fault(job);
  expect_line(outcome, 1,
              {"error: nothing has moved for ", "raise parallel.timeout_seconds",
               fmt::format("(rank 0 on {}", host_name()), ", step 0)"});
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
}

struct WithoutMemory {
  const char* name;
  std::vector<int> ranks;
};

class DeviceWithoutMemory : public FaultyDevice,
                            public testing::WithParamInterface<WithoutMemory> {};

// What a run asks for behind its first step is little, and there as a rule: so the runtime is made
// to refuse it. Of several ranks the one that comes to it first speaks.
TEST_P(DeviceWithoutMemory, InMidRunFailsAsOneOfTheRank) {
  const auto job = started_faulty({}, set({"parallel.timeout_seconds=10"}));
  const std::vector<pid_t> processes = processes_of(*job);
  order(GetParam().ranks, "memory");
  const Outcome outcome = end_after_fault(*job);
  const std::string line = expect_line(
      outcome, 1, {"out of memory on ", "in the middle of the run", "go on with --resume"});
  EXPECT_TRUE(std::ranges::any_of(GetParam().ranks, [&](int rank) {
    return line.find("(" + place_of(rank) + ", step ") != std::string::npos;
  })) << line;
  expect_clean_end(processes);
}

INSTANTIATE_TEST_SUITE_P(Some, DeviceWithoutMemory,
                         testing::Values(WithoutMemory{"OfOne", {1}},
                                         WithoutMemory{"OfTwo", {1, 2}}),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace tandem::cli
