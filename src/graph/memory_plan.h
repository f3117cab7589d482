#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

/// A buffer that holds something from tick `first` to tick `last`, both included.
struct BufferLifetime {
  std::size_t bytes = 0;
  int first = 0;
  int last = 0;
};

/// Where each buffer lies in one block of memory; buffers that live at the same tick never overlap.
struct MemoryPlan {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
};

/// Places buffers, largest first, each at the lowest aligned offset that is free throughout its
/// life ("greedy by size", Pisarchyk and Lee 2020). The result is never below the largest sum of
/// buffers alive at one tick and in practice close to it.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers);

}  // namespace tandem
