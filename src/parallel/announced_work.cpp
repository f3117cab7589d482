#include "parallel/announced_work.h"

#include <chrono>
#include <future>

namespace tandem {

void run_announced(Communicator& communicator, const std::function<void()>& work) {
  if (communicator.size() == 1) return work();
  constexpr auto interval = std::chrono::milliseconds(50);
  std::future<void> done = std::async(std::launch::async, work);
  while (done.wait_for(interval) != std::future_status::ready) communicator.still_working();
  done.get();
}

void run_announced(Communicator& communicator, const FilePatience& patience,
                   const std::function<void()>& work) {
  await_file_work(patience, work, [&communicator] { communicator.report_progress(); });
}

}  // namespace tandem
