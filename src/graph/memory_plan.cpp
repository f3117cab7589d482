#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "device/arena.h"

namespace tandem {
namespace {

/// Fills one range of offsets that begins with the lent block.
class Placer {
 public:
  explicit Placer(const LentMemory& lent)
      : boundary_(lent.bytes / Arena::alignment * Arena::alignment) {
    for (PlacedBuffer kept : lent.kept) {
      if (kept.offset >= boundary_) continue;
      kept.buffer.bytes = std::min(kept.buffer.bytes, boundary_ - kept.offset);
      insert(kept);
    }
  }

  std::size_t place(const BufferLifetime& buffer) {
    std::size_t offset = on_one_side(0, buffer.bytes);
    for (const PlacedBuffer& there : placed_) {
      if (there.buffer.last < buffer.first || there.buffer.first > buffer.last) continue;
      if (there.offset >= offset + buffer.bytes) break;
      const std::size_t behind = Arena::align(there.offset + there.buffer.bytes);
      offset = on_one_side(std::max(offset, behind), buffer.bytes);
    }
    insert({.offset = offset, .buffer = buffer});
    return offset;
  }

  std::size_t boundary() const { return boundary_; }

 private:
  /// `offset`, or the boundary where so many bytes from there would cross it.
  std::size_t on_one_side(std::size_t offset, std::size_t bytes) const {
    return offset < boundary_ && offset + bytes > boundary_ ? boundary_ : offset;
  }
  void insert(const PlacedBuffer& placed) {
    placed_.insert(std::ranges::upper_bound(placed_, placed.offset, {}, &PlacedBuffer::offset),
                   placed);
  }

  std::size_t boundary_;              // between the lent block and the own one
  std::vector<PlacedBuffer> placed_;  // sorted by offset
};

std::vector<std::size_t> largest_first(std::span<const BufferLifetime> buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  return order;
}

MemoryPlan place_in_order(std::span<const BufferLifetime> buffers,
                          std::span<const std::size_t> order, const LentMemory& lent) {
  Placer placer(lent);
  MemoryPlan plan{.offsets = std::vector<std::size_t>(buffers.size()),
                  .lent_bytes = placer.boundary()};
  std::size_t end = plan.lent_bytes;
  for (const std::size_t index : order) {
    plan.offsets[index] = placer.place(buffers[index]);
    end = std::max(end, Arena::align(plan.offsets[index] + buffers[index].bytes));
  }
  plan.bytes = end - plan.lent_bytes;
  return plan;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers, const LentMemory& lent) {
  std::vector<std::size_t> order = largest_first(buffers);
  MemoryPlan best = place_in_order(buffers, order, {});
  if (lent.bytes == 0) return best;
  // What is lent is not free for the same time everywhere, so that sizes alone make a poor order.
  // What reached highest is placed first in the next round.
  constexpr int rounds = 32;
  for (int round = 0; round < rounds; ++round) {
    const MemoryPlan plan = place_in_order(buffers, order, lent);
    if (plan.bytes < best.bytes) best = plan;
    const auto highest = std::ranges::max_element(
        order, {}, [&](std::size_t index) { return plan.offsets[index] + buffers[index].bytes; });
    if (highest == order.begin()) break;
    std::rotate(order.begin(), highest, highest + 1);
  }
  return best;
}

}  // namespace tandem
