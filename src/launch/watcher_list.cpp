#include "launch/watcher_list.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <map>

#include "base/text.h"
#include "launch/rank_board.h"

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

std::string lost_text(std::vector<LostWatcher> lost) {
  std::ranges::sort(lost, {}, &LostWatcher::rank);
  std::map<std::string, std::vector<SignalledRank>> by_device;
  std::vector<std::string> processes;
  for (const LostWatcher& each : lost) {
    by_device[each.device].push_back(
        {.rank = each.rank, .device = each.device, .step = each.step, .signal = SIGKILL});
    processes.push_back(fmt::format("{}", each.process));
  }
  std::vector<std::string> places;
  for (const auto& [device, ranks] : by_device) {
    const bool known = std::ranges::any_of(ranks, [](const auto& each) { return each.rank >= 0; });
    places.push_back((known ? "" : "a rank on ") + ranks_place(ranks));
  }
  return fmt::format(
      "{} ended without a word, and so did what watched {} (tandem launch-rank, {} {}): "
      "killed by somebody, or by the kernel where memory ran out; look at that host's memory and "
      "kernel log",
      join(places, "; "), lost.size() == 1 ? "it" : "them",
      lost.size() == 1 ? "process" : "processes", join(processes, ", "));
}

}  // namespace tandem
