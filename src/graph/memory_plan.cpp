#include "graph/memory_plan.h"

#include <algorithm>
#include <numeric>

#include "device/arena.h"

namespace tandem {

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers) {
  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // sorted by offset
  for (const std::size_t index : order) {
    const BufferLifetime& buffer = buffers[index];
    std::size_t offset = 0;
    for (const std::size_t other : placed) {
      const BufferLifetime& there = buffers[other];
      if (there.last < buffer.first || there.first > buffer.last) continue;
      if (plan.offsets[other] >= offset + buffer.bytes) break;
      offset = std::max(offset, Arena::align(plan.offsets[other] + there.bytes));
    }
    plan.offsets[index] = offset;
    plan.bytes = std::max(plan.bytes, Arena::align(offset + buffer.bytes));
    const auto position = std::ranges::upper_bound(
        placed, offset, {}, [&](std::size_t other) { return plan.offsets[other]; });
    placed.insert(position, index);
  }
  return plan;
}

}  // namespace tandem
