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
  /// Of a buffer that only a second queue touches, where things go on later, but in the order of
  /// the ticks at which they are given to it: the last of these, at most `last`. Else -1.
  int aside_last = -1;
};

/// Whether two buffers may hold something at the same time. Of two that only the second queue
/// touches, one may take the other's place as soon as that queue is done with it, which others
/// cannot rely on before tick `last`.
bool live_together(const BufferLifetime& a, const BufferLifetime& b);

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

/// Where each buffer lies; those that live together never overlap. Offsets below
/// `lent_bytes` are of the lent block; behind it the plan's own block of `bytes` goes on, so that
/// an offset less `lent_bytes` is one of the own block. No buffer lies in both.
struct MemoryPlan {
  std::vector<std::size_t> offsets;
  std::size_t bytes = 0;
  std::size_t lent_bytes = 0;
};

/// What buffers take at least, whatever their places: the largest sum, as they are aligned, of
/// those that live together at one tick.
std::size_t least_memory(std::span<const BufferLifetime> buffers);

/// Places buffers, largest first, each at the lowest aligned offset that is free throughout its
/// life ("greedy by size", Pisarchyk and Lee 2020), then in other orders, and in each of these
/// again with what reached highest placed first; the best one counts. Without a loan the result is
/// never below least_memory() and in practice close to it. With one it is never above what the
/// largest first would take without.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers, const LentMemory& lent = {});

}  // namespace tandem
