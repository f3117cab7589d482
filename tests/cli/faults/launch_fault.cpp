#include "cli/faults/launch_fault.h"

#include <fmt/format.h>

#include <csignal>
#include <sstream>
#include <stdexcept>

#include "cli/faults/fault_check.h"

namespace tandem::cli {
Words LaunchFault::shared_gpu(Words more) {
  more.insert(more.end(), {"--gpus", "1", "--ranks-per-gpu", "4"});
  return more;
}

std::vector<pid_t> LaunchFault::processes_of(const Program& job, int ranks) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) processes.push_back(job.rank_process(rank));
  return processes;
}

pid_t LaunchFault::mpirun_of(const Program& job) {
  std::istringstream children(read_file(fmt::format("/proc/{0}/task/{0}/children", job.id())));
  for (pid_t child = 0; children >> child;) {
    if (read_file(fmt::format("/proc/{}/comm", child)) == "mpirun\n") return child;
  }
  throw std::runtime_error("no mpirun");
}

std::string LaunchFault::place_of(int rank, const std::string& gpu) const {
  return fmt::format("rank {} on {}, {}", rank, host_name(), gpu);
}

std::string LaunchFault::expect_line(const Outcome& outcome, int code,
                                     const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.code, code) << outcome.err;
  std::string line = only_error(outcome);
  for (const std::string& part : parts) {
    EXPECT_NE(line.find(part), std::string::npos) << line << "\nwanted: " << part;
  }
  return line;
}

void LaunchFault::expect_clean_end(const std::vector<pid_t>& processes,
                                   const Words& options) const {
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_FALSE(steps.empty());
  Words more = endless_job(set({fmt::format("train.max_steps={}", steps.back() + 3)}));
  more.emplace_back("--resume");
  const Outcome next = run(launch(options, more));
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_NE(next.err.find(fmt::format("resuming at step {} ", steps.back())), std::string::npos)
      << next.err;
  expect_nothing_left();
}

Launch LaunchFault::for_daemon(const std::filesystem::path& pipes, const Words& command) const {
  Launch made = with(with_driver({}), "CUDA_MPS_PIPE_DIRECTORY", pipes.string());
  made = with(made, "CUDA_MPS_LOG_DIRECTORY", pipes.string());
  made = with(made, "CUDA_VISIBLE_DEVICES", device().gpu);
  made.command = command;
  return made;
}

void LaunchFault::expect_checkpoint_after(int step) const {
  wait_until("there are newer checkpoints", 40.0, [&] {
    const std::vector<int> steps = checkpoint_steps(path("out"));
    return !steps.empty() && steps.back() > step;
  });
}

void LaunchFault::expect_restart_with_the_same_bits(Program& job, int code, int damaged,
                                                    const Words& options,
                                                    const Words& settings) const {
  const std::string restart =
      fmt::format("the job ended with code {}; restart 1 of 1, from step ", code);
  wait_until("the job is restarted", 40.0,
             [&] { return job.err().find(" (out/checkpoints/") != std::string::npos; });
  const std::string err = job.err();
  const std::size_t at = err.find(restart);
  ASSERT_NE(at, std::string::npos) << err;
  const int reached = std::stoi(err.substr(at + restart.size()));
  EXPECT_TRUE(damaged == 0 || reached < damaged) << err;
  wait_until("it has gone on", device().start_seconds, [&] {
    return !job.running() || checkpoint_steps(path("out")).back() > std::max(reached, damaged);
  });
  job.signal(SIGTERM);
  const Outcome outcome = end_after_fault(job);
  ASSERT_EQ(outcome.code, stopped) << outcome.err;
  // A step more, against a run that nobody disturbed.
  const int steps = checkpoint_steps(path("out")).back() + 1;
  Words more = settings;
  const Words last_step = set({fmt::format("train.max_steps={}", steps)});
  more.insert(more.end(), last_step.begin(), last_step.end());
  const Words end = endless_job(more);
  Words resumed = end;
  resumed.emplace_back("--resume");
  const Outcome last = run(launch(options, resumed));
  ASSERT_EQ(last.code, 0) << last.err;
  const Outcome whole = run(launch(options, end, "whole"));
  ASSERT_EQ(whole.code, 0) << whole.err;
  expect_same_checkpoint(checkpoint(path("out"), steps), checkpoint(path("whole"), steps));
  expect_nothing_left();
}

}  // namespace tandem::cli
