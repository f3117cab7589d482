#pragma once

#include <cstdint>

namespace tandem {

/// Elements [begin, end) of an arena.
struct ArenaRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  constexpr std::int64_t elements() const { return end - begin; }
  bool operator==(const ArenaRange&) const = default;
};

/// The share of a slice that member `member` of `members` works on: the shares lie one after the
/// other, fill the slice, and meet at multiples of 32 elements of the arena, so that no two members
/// write one 128-byte line of f32. A share may be empty.
ArenaRange share_of(const ArenaRange& slice, int members, int member);

/// How a kernel walks a range whose elements 4k are where 16-byte accesses may begin: packs of four
/// [first, last), which begin at the elements 4 * first, and the elements before and behind them
/// one by one.
struct PackedRange {
  explicit PackedRange(const ArenaRange& range);

  std::int64_t first = 0;  ///< pack
  std::int64_t last = 0;   ///< pack
  ArenaRange head;         ///< fewer than 4, or all of a range without a pack
  ArenaRange tail;         ///< fewer than 4
};

}  // namespace tandem
