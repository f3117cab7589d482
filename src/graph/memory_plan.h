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

/// A buffer and where in a block of memory it begins, in bytes.
struct PlacedBuffer {
  std::size_t offset = 0;
  BufferLifetime buffer;
};

/// A block of memory, aligned as an Arena, whose owner lends what it does not need at the time.
struct LentMemory {
  std::size_t bytes = 0;
  /// What the owner keeps there, and when.
  std::vector<PlacedBuffer> kept;
};

/// Where each buffer lies; those that live at the same tick never overlap. Offsets below
/// `lent_bytes` are of the lent block; behind it the plan's own block of `bytes` goes on, so that
/// an offset less `lent_bytes` is one of the own block. No buffer lies in both.
struct MemoryPlan {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  std::size_t lent_bytes = 0;
};

/// Places buffers, largest first, each at the lowest aligned offset that is free throughout its
/// life ("greedy by size", Pisarchyk and Lee 2020). Without a loan the result is never below the
/// largest sum of buffers alive at one tick and in practice close to it. With one it is never above
/// what it would be without, and it is the best of several orders of placing.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers, const LentMemory& lent = {});

}  // namespace tandem
