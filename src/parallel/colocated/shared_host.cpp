#include "parallel/colocated/shared_host.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/idle_wait.h"
#include "base/shared_memory.h"

namespace tandem {
namespace {

constexpr std::size_t line = 64;

constexpr std::size_t alignment = 256;

std::size_t padded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

SegmentSize exactly(std::size_t bytes) {
  return {.fixed = bytes, .each = 1, .most = 0, .least = 0};
}

}  // namespace

SharedHost::SharedHost(Communicator& world, const RankTopology& topology)
    : world_(world),
      topology_(topology),
      counters_(world, topology, exactly(static_cast<std::size_t>(topology.local_size()) * line)) {}

bool SharedHost::has_room(std::span<const std::size_t> sizes) {
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += padded(size);
  std::int64_t everywhere = fits_beside_others(bytes) ? 1 : 0;
  world_.all_reduce(Tensor(&everywhere, {1}, DType::i64), ReduceOp::min);
  if (everywhere == 0) return false;
  try {
    take(bytes);
    return true;
  } catch (const InputError&) {  // on all ranks: another job was faster
    return false;
  }
}

std::byte* SharedHost::allocate(std::size_t bytes) {
  const std::size_t needed = padded(bytes);
  // Hosts whose ranks are not as many may differ in what is left.
  std::int32_t anew = needed > left_ ? 1 : 0;
  world_.all_reduce(Tensor(&anew, {1}, DType::i32), ReduceOp::max);
  if (anew != 0) take(needed);
  std::byte* memory = room_;
  room_ += needed;
  left_ -= needed;
  return memory;
}

std::byte* SharedHost::allocate_arena(std::size_t bytes) {
  const std::size_t each = padded(bytes);
  std::byte* first = allocate(each * static_cast<std::size_t>(members()));
  arenas_.push_back({.first = first, .stride = each});
  return first + static_cast<std::size_t>(member()) * each;
}

const SharedArenas* SharedHost::arenas_of(const void* arena) const {
  const auto found = std::ranges::find_if(
      arenas_, [&](const SharedArenas& arenas) { return arenas.of(member()) == arena; });
  return found == arenas_.end() ? nullptr : &*found;
}

void SharedHost::take(std::size_t bytes) {
  auto segment = std::make_unique<SharedSegment>(world_, topology_, exactly(bytes));
  room_ = segments_.emplace_back(std::move(segment))->data();
  left_ = bytes;
}

std::int64_t& SharedHost::arrivals(int member) const {
  return *reinterpret_cast<std::int64_t*>(counters_.data() +
                                          static_cast<std::size_t>(member) * line);
}

void SharedHost::wait_for_each_other() {
  ++waits_;
  std::atomic_ref(arrivals(member())).store(waits_, std::memory_order_release);
  int arrived = 0;
  IdleWait idle(IdleWait::attentive_to_memory);
  const auto done = [&] {
    while (arrived < members() &&
           std::atomic_ref(arrivals(arrived)).load(std::memory_order_acquire) >= waits_) {
      ++arrived;
    }
    if (arrived < members()) idle.pause();
    return arrived == members();
  };
  world_.wait_until(done, [] { return std::string("the update of a host's shared weights"); });
}

}  // namespace tandem
