#include "launch/watcher_list.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tandem {

WatcherList::~WatcherList() {
  for (const Watcher& each : watchers_) {
    if (each.descriptor >= 0) ::close(each.descriptor);
  }
}

void WatcherList::add(pid_t process, int rank) {
  constexpr std::size_t most = 256;  // each takes a descriptor, of which there are 1,024 as a rule
  ++begun_;
  if (watchers_.size() >= most) return;
  const int descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0U));
  if (descriptor < 0 && errno != ESRCH) return;  // as on an old kernel: nothing is known of its end
  watchers_.push_back({.facts = {.rank = rank, .process = process}, .descriptor = descriptor});
}

void WatcherList::let_go(pid_t process) {
  std::erase_if(watchers_, [&](const Watcher& each) {
    if (each.facts.process != process) return false;
    if (each.descriptor >= 0) ::close(each.descriptor);
    return true;
  });
}

std::vector<pid_t> WatcherList::ended() const {
  std::vector<pid_t> processes;
  for (const Watcher& each : watchers_) {
    pollfd end{.fd = each.descriptor, .events = POLLIN, .revents = 0};
    if (each.descriptor < 0 || ::poll(&end, 1, 0) == 1) processes.push_back(each.facts.process);
  }
  return processes;
}

std::vector<LostWatcher> WatcherList::lost(const std::vector<pid_t>& ended) const {
  std::vector<LostWatcher> found;
  for (const Watcher& each : watchers_) {
    if (std::ranges::find(ended, each.facts.process) != ended.end()) found.push_back(each.facts);
  }
  std::ranges::sort(found, {}, &LostWatcher::rank);
  return found;
}

}  // namespace tandem
