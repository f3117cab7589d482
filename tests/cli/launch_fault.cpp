#include "cli/launch_fault.h"

#include <fmt/format.h>

#include "cli/fault_check.h"

namespace tandem::cli {
namespace {

constexpr int ranks = 4;

}  // namespace

Words LaunchFault::shared_gpu(Words more) {
  more.insert(more.end(), {"--gpus", "1", "--ranks-per-gpu", std::to_string(ranks)});
  return more;
}

std::vector<pid_t> LaunchFault::processes_of(const Program& job) {
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) processes.push_back(job.rank_process(rank));
  return processes;
}

void LaunchFault::expect_clean_end(const std::vector<pid_t>& processes) const {
  for (const pid_t process : processes) expect_gone(process);
  expect_nothing_left();
  const std::vector<int> steps = checkpoint_steps(path("out"));
  ASSERT_FALSE(steps.empty());
  Words more = endless_job(set({fmt::format("train.max_steps={}", steps.back() + 3)}));
  more.emplace_back("--resume");
  const Outcome next = run(launch(shared_gpu(), more));
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_NE(next.err.find(fmt::format("resuming at step {} ", steps.back())), std::string::npos)
      << next.err;
  expect_nothing_left();
}

void LaunchFault::expect_checkpoint_after(int step) const {
  wait_until("there are newer checkpoints", 40.0, [&] {
    const std::vector<int> steps = checkpoint_steps(path("out"));
    return !steps.empty() && steps.back() > step;
  });
}

}  // namespace tandem::cli
