#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/faults/fault_check.h"
#include "cli/faults/launch_fault.h"
#include "support/process.h"
#include "train/checkpoints/safetensors.h"

// Ranks of a job of `tandem launch` that are killed elsewhere than between two of its steps: while
// it starts, evaluates, or writes a checkpoint. Over made-up GPUs (test_cli_launch_moments) and
// over a real one (test_cli_launch_faults_gpu).

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;

class KilledMoment : public LaunchFault {
 protected:
  /// Expects the job to end by the line of a killed rank; returns what that says behind the GPU.
  std::string line_of_killed(Program& job, int rank) const {
    const Outcome outcome = end_after_fault(job);
    EXPECT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
    const std::string line = only_error(outcome);
    const std::string begin =
        fmt::format("error: rank {} on {}, {}", rank, host_name(), device().gpu);
    EXPECT_TRUE(line.starts_with(begin)) << outcome.err;
    EXPECT_NE(line.find(" was ended by signal 9 (Killed)"), std::string::npos) << line;
    return line.starts_with(begin) ? line.substr(begin.size()) : "";
  }
};

/// How far rank 1 has come where it is killed, if it has not come further meanwhile.
struct Moment {
  const char* name;
  std::function<bool(pid_t rank, const fs::path& out)> has_come;
};

bool has_mapped(pid_t process, const std::string& part) {
  return read_file(fmt::format("/proc/{}/maps", process)).find(part) != std::string::npos;
}

const Moment moments[] = {
    {"AsItsProcess", [](pid_t, const fs::path&) { return true; }},
    {"InMpisStart", [](pid_t rank, const fs::path&) { return has_mapped(rank, "/libmpi.so"); }},
    // By which the ranks of a host reach each other.
    {"AmongMpisRanks",
     [](pid_t rank, const fs::path&) { return has_mapped(rank, "vader_segment"); }},
    {"InTheRunsFolder", [](pid_t, const fs::path& out) { return fs::exists(out / "run.lock"); }},
    {"BeforeTheFirstStep", [](pid_t, const fs::path& out) {
       return read_file(out / "train.log").find("memory a rank") != std::string::npos;
     }}};

class KilledInTheStart : public KilledMoment, public testing::WithParamInterface<Moment> {};

TEST_P(KilledInTheStart, IsNamedAndTakesTheJobAlong) {
  // Without checkpoints: there is none to go on from, however late this looks.
  const Words settings = endless_job(set({"checkpoint.every_steps=0"}));
  Program job(launch(shared_gpu(), settings));
  const std::vector<pid_t> processes = processes_of(job);
  wait_until("it has come so far", device().start_seconds,
             [&] { return !job.running() || GetParam().has_come(processes[1], path("out")); });
  ASSERT_TRUE(job.running()) << job.err();
  Program::signal(processes[1], SIGKILL);
  const std::string rest = line_of_killed(job, 1);
  EXPECT_TRUE(rest.starts_with(" was ended ") || rest.starts_with(", step ")) << rest;
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
  const Outcome next = run(launch(shared_gpu(), set({"train.max_steps=3"})));
  EXPECT_EQ(next.code, 0) << next.err;
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Each, KilledInTheStart, testing::ValuesIn(moments),
                         [](const auto& each) { return each.param.name; });

using KilledInAnEvaluation = KilledMoment;

TEST_F(KilledInAnEvaluation, IsNamedWithTheStepAndTheJobGoesOnFromThere) {
  // Minutes of it, behind the first epoch and its checkpoint. In large batches: ranks that share
  // cores and evaluate a few tiny images at a time wake each other so often that Linux 6.18 keeps
  // the other sessions' processes (sched_autogroup_enabled) waiting for seconds.
  const auto job =
      started(shared_gpu(), set({"train.eval_every=1", "train.eval_batch=8192",
                                 "checkpoint.every_steps=0", "data.test_size=20000000"}));
  const std::vector<pid_t> processes = processes_of(*job);
  const double before = processor_seconds(processes[1]);
  wait_until("it evaluates", 60.0, [&] { return processor_seconds(processes[1]) > before + 1.0; });
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_EQ(steps.size(), 1U);
  Program::signal(processes[1], SIGKILL);
  const std::string rest = line_of_killed(*job, 1);
  EXPECT_TRUE(rest.starts_with(fmt::format(", step {} was ended ", steps.back()))) << rest;
  EXPECT_TRUE(read_metrics(path("out"), "evaluation").empty());
  EXPECT_EQ(checkpoint_steps(path("out")), steps);
  expect_clean_end(processes);
}

class KilledBesideTheWriter : public KilledMoment {
 protected:
  /// Those that are not whole yet, or never will be.
  bool is_written() const {
    const fs::directory_iterator files(path("out/checkpoints"));
    return std::any_of(begin(files), end(files), [](const fs::directory_entry& file) {
      return file.path().filename().string().find(".tmp.") != std::string::npos;
    });
  }

  /// Stops rank 0 in the middle of a checkpoint.
  void hold_the_writer(pid_t writer) const {
    wait_until("it is held while it writes", 60.0, [&] {
      hold(writer);
      if (is_written()) return true;
      Program::signal(writer, SIGCONT);
      return false;
    });
  }
};

class KilledWhileACheckpointIsWritten : public KilledBesideTheWriter,
                                        public testing::WithParamInterface<int> {};

TEST_P(KilledWhileACheckpointIsWritten, IsNamedAndLeavesWholeOnes) {
  const int rank = GetParam();
  const auto job = started(shared_gpu(), set({"checkpoint.every_steps=1"}));
  const std::vector<pid_t> processes = processes_of(*job);
  hold_the_writer(processes[0]);
  const int last = checkpoint_steps(path("out")).back();
  Program::signal(processes[static_cast<std::size_t>(rank)], SIGKILL);
  const std::string rest = line_of_killed(*job, rank);
  const std::string begin = ", step ";
  ASSERT_TRUE(rest.starts_with(begin)) << rest;
  EXPECT_GT(std::stoi(rest.substr(begin.size())), last) << rest;
  const std::vector<int> steps = checkpoint_steps(path("out"));
  // One that is ended with the job may have finished it.
  if (rank == 0) {
    EXPECT_TRUE(is_written());
    EXPECT_EQ(steps.back(), last);
  }
  for (const int step : steps) {
    EXPECT_NO_THROW(SafetensorsFile(checkpoint(path("out"), step), ReadChecksum::required));
  }
  expect_clean_end(processes);
  EXPECT_FALSE(is_written());
}

// The writer wakes before anybody ends it, and misses the folder, unless it misses the other rank
// first.
TEST_F(KilledBesideTheWriter, IsToldAloneWhateverTheWriterMeets) {
  const auto job = started(shared_gpu(), set({"checkpoint.every_steps=1"}));
  const std::vector<pid_t> processes = processes_of(*job);
  hold_the_writer(processes[0]);
  fs::rename(path("out/checkpoints"), path("out/elsewhere"));
  Program::signal(processes[1], SIGKILL);
  wait_until("its watcher knows of its end", 20.0, [&] { return ::kill(processes[1], 0) != 0; });
  Program::signal(processes[0], SIGCONT);
  EXPECT_TRUE(line_of_killed(*job, 1).starts_with(", step "));
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
}

INSTANTIATE_TEST_SUITE_P(Ranks, KilledWhileACheckpointIsWritten, testing::Values(0, 1),
                         [](const auto& each) {
                           return each.param == 0 ? "TheWriter" : "Another";
                         });

}  // namespace
}  // namespace tandem::cli
