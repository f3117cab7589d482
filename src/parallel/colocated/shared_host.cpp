#include "parallel/colocated/shared_host.h"

#include <sys/statvfs.h>

#include <atomic>
#include <string>
#include <thread>

namespace tandem {
namespace {

constexpr std::size_t line = 64;

SegmentSize exactly(std::size_t bytes) {
  return {.fixed = bytes, .each = 1, .most = 0, .least = 0};
}

}  // namespace

SharedHost::SharedHost(Communicator& world, const RankTopology& topology)
    : world_(world),
      topology_(topology),
      counters_(world, topology, exactly(static_cast<std::size_t>(topology.local_size()) * line)) {}

bool SharedHost::has_room(std::size_t bytes) {
  struct statvfs status {};
  const bool here = statvfs("/dev/shm", &status) == 0 && status.f_bavail >= bytes / status.f_frsize;
  std::int64_t everywhere = here ? 1 : 0;
  world_.all_reduce(Tensor(&everywhere, {1}, DType::i64), ReduceOp::min);
  return everywhere == 1;
}

std::byte* SharedHost::allocate(std::size_t bytes) {
  return segments_.emplace_back(std::make_unique<SharedSegment>(world_, topology_, exactly(bytes)))
      ->data();
}

std::int64_t& SharedHost::arrivals(int member) const {
  return *reinterpret_cast<std::int64_t*>(counters_.data() +
                                          static_cast<std::size_t>(member) * line);
}

void SharedHost::wait_for_each_other() {
  ++waits_;
  std::atomic_ref(arrivals(member())).store(waits_, std::memory_order_release);
  int arrived = 0;
  int idle = 0;
  const auto done = [&] {
    while (arrived < members() &&
           std::atomic_ref(arrivals(arrived)).load(std::memory_order_acquire) >= waits_) {
      ++arrived;
    }
    // Ranks may outnumber the cores, and one that is late need this one.
    constexpr int patience = 200;
    if (arrived < members() && ++idle > patience) std::this_thread::yield();
    return arrived == members();
  };
  world_.wait_until(done, [] { return std::string("the update of a host's shared weights"); });
}

}  // namespace tandem
