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
      if (!live_together(there.buffer, buffer)) continue;
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

/// Whether a buffer is placed before another one.
using Before = bool (*)(const BufferLifetime& a, const BufferLifetime& b);

bool larger(const BufferLifetime& a, const BufferLifetime& b) { return a.bytes > b.bytes; }
bool larger_and_longer(const BufferLifetime& a, const BufferLifetime& b) {
  const auto extent = [](const BufferLifetime& buffer) {
    return buffer.bytes * static_cast<std::size_t>(buffer.last - buffer.first + 1);
  };
  return extent(a) > extent(b);
}
bool earlier(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first != b.first ? a.first < b.first : a.last > b.last;
}

std::vector<std::size_t> ordered(std::span<const BufferLifetime> buffers, Before before) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return before(buffers[a], buffers[b]); });
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

bool live_together(const BufferLifetime& a, const BufferLifetime& b) {
  const bool aside = a.aside_last >= 0 && b.aside_last >= 0;
  return a.first <= (aside ? b.aside_last : b.last) && b.first <= (aside ? a.aside_last : a.last);
}

std::size_t least_memory(std::span<const BufferLifetime> buffers) {
  std::size_t largest = 0;
  for (const BufferLifetime& at : buffers) {
    std::size_t sum = 0;
    for (const BufferLifetime& each : buffers) {
      const int last = each.aside_last >= 0 ? each.aside_last : each.last;
      if (each.first <= at.first && at.first <= last) sum += Arena::align(each.bytes);
    }
    largest = std::max(largest, sum);
  }
  return largest;
}

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers, const LentMemory& lent) {
  MemoryPlan best = place_in_order(buffers, ordered(buffers, larger), {});
  const std::size_t least = lent.bytes > 0 ? 0 : least_memory(buffers);
  for (const Before before : {larger, larger_and_longer, earlier}) {
    std::vector<std::size_t> order = ordered(buffers, before);
    // What reached highest is placed first in the next round.
    constexpr int rounds = 32;
    for (int round = 0; round < rounds && best.bytes > least; ++round) {
      const MemoryPlan plan = place_in_order(buffers, order, lent);
      if (plan.bytes < best.bytes) best = plan;
      const auto highest = std::ranges::max_element(
          order, {}, [&](std::size_t index) { return plan.offsets[index] + buffers[index].bytes; });
      if (highest == order.begin()) break;
      std::rotate(order.begin(), highest, highest + 1);
    }
  }
  return best;
}

}  // namespace tandem
