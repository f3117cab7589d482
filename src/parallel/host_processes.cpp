#include "parallel/host_processes.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "base/error.h"
#include "base/process_report.h"
#include "parallel/gather_text.h"
#include "parallel/gather_values.h"

namespace tandem {
namespace {

constexpr std::size_t line = 64;

// A handler reaches nothing but static storage, from which it finds this process's word. It counts
// itself, so that the word's memory stays while a handler on another thread may write there.
std::atomic<std::int32_t*> g_word{nullptr};
std::atomic<bool> g_end_explained{false};
std::atomic<int> g_handlers{0};
static_assert(std::atomic<std::int32_t*>::is_always_lock_free &&
              std::atomic_ref<std::int32_t>::is_always_lock_free);

/// What a rank says of its process.
struct Process {
  std::int64_t id;
  std::uint64_t name_space;  // in which the id holds; 0: unknown
  std::int64_t watched;      // its parent tells how it ends
};

Process this_process() {
  struct stat status {};
  const bool known = ::stat("/proc/self/ns/pid", &status) == 0;
  return {.id = ::getpid(),
          .name_space = known ? status.st_ino : 0,
          .watched = has_watching_parent() ? 1 : 0};
}

/// A file descriptor that can be read from the process's end on; -1 where there is none.
int open_process(std::int64_t id) {
  return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(id), 0U));
}

SegmentSize words_for(const RankTopology& topology) {
  const std::size_t words = 1 + static_cast<std::size_t>(topology.local_size());
  return {.fixed = words * line, .each = 1, .most = 0, .least = 0};
}

}  // namespace

HostProcesses::HostProcesses(Communicator& world, const RankTopology& topology)
    : words_(world, topology, words_for(topology)),
      own_word_(1 + topology.local_rank()),
      host_(topology.host_name(topology.host_of(world.rank()))),
      exceptions_(std::uncaught_exceptions()) {
  TANDEM_CHECK(g_word == nullptr, "two watch the host's processes");
  const Process mine = this_process();
  const std::vector<Process> all = gather_values(world, mine);
  const std::vector<int>& neighbours = topology.ranks_on_host(topology.host_of(world.rank()));
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    const int rank = neighbours[i];
    const Process& other = all[static_cast<std::size_t>(rank)];
    const bool seen = mine.name_space != 0 && other.name_space == mine.name_space;
    if (rank == world.rank() || !seen || other.watched != 0) continue;
    const int descriptor = open_process(other.id);
    if (descriptor < 0) continue;
    descriptors_.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    ranks_.push_back(rank);
    indices_.push_back(1 + static_cast<int>(i));
  }
  g_word = &word(own_word_);
  if (g_end_explained) explain_own_end();  // it may have come before there was a word
}

HostProcesses::~HostProcesses() {
  // An error that unwinds this rank is told by itself, and others have nothing to add.
  if (std::uncaught_exceptions() > exceptions_) static_cast<void>(claim_speech());
  std::atomic_ref(word(own_word_)) = 1;
  g_word = nullptr;
  while (g_handlers != 0) std::this_thread::yield();
  for (const pollfd& each : descriptors_) {
    if (each.fd >= 0) static_cast<void>(::close(each.fd));
  }
}

std::int32_t& HostProcesses::word(int index) const {
  return *reinterpret_cast<std::int32_t*>(words_.data() + static_cast<std::size_t>(index) * line);
}

bool HostProcesses::claim_speech() const { return std::atomic_ref(word(0)).exchange(1) == 0; }

std::vector<int> HostProcesses::ended_ranks() {
  std::vector<int> ended;
  if (::poll(descriptors_.data(), descriptors_.size(), 0) <= 0) return ended;
  for (std::size_t i = 0; i < descriptors_.size(); ++i) {
    pollfd& each = descriptors_[i];
    if (each.fd < 0 || each.revents == 0) continue;
    if (std::atomic_ref(word(indices_[i])) == 0) {
      ended.push_back(ranks_[i]);
    } else {
      static_cast<void>(::close(each.fd));
      each.fd = -1;  // which poll() passes over
    }
  }
  return ended;
}

void HostProcesses::require_alive(const Waited& waited, std::chrono::duration<double> patience) {
  const Clock::time_point start = Clock::now();
  while (ended_ranks().empty()) {
    const bool none_left = std::ranges::all_of(descriptors_, [](auto each) { return each.fd < 0; });
    if (none_left || Clock::now() - start >= patience) return;
    std::this_thread::sleep_for(interval);
  }
  // Who ends all processes, or their mpirun, ends this one by then. mpirun itself gives the others
  // a second when one has ended.
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const std::vector<int> ended = ended_ranks();
  if (ended.empty()) return;
  constexpr std::chrono::seconds launchers_turn(12);  // it may take seconds to end a job
  if (!claim_speech()) std::this_thread::sleep_for(launchers_turn);
  const std::string what = waited ? waited() : std::string();
  throw RankEnded(fmt::format(
      "{} on {} ended without a word{}{}: killed (by the kernel, where memory runs out) "
      "or crashed; look at that host's memory and kernel log",
      ranks_text(ended), host_, what.empty() ? "" : ", waited for in ", what));
}

std::chrono::duration<double> killed_rank_patience(double timeout_seconds) {
  constexpr double most = 2.0;
  return std::chrono::duration<double>(timeout_seconds > 0.0 ? std::min(most, timeout_seconds / 4.0)
                                                             : most);
}

void explain_own_end() noexcept {
  ++g_handlers;
  g_end_explained = true;
  std::int32_t* const word = g_word;
  if (word != nullptr) std::atomic_ref<std::int32_t>(*word).store(1);
  --g_handlers;
}

}  // namespace tandem
