#pragma once

#include <cstdint>

#include "parallel/colocated/slice_share.h"

namespace tandem {

/// How ranks that copy into each other's memory sum a slice of their arenas. Each rank owns a share
/// of the slice: it gets the others' elements of that share, adds them to its own, and gives the
/// sums to all.
///
/// What an owner gets lies in its staging memory, which has as many elements as its arena. Of that
/// a slice uses the elements that it has in the arena, and no others: so slices that do not overlap
/// do not meet in staging memory either, and any of them can be under way at the same time. The
/// contributions lie one after the other there, in the order of the ranks and without the owner's.
class CopyLayout {
 public:
  /// `ranks`: 2 or more.
  CopyLayout(const ArenaRange& slice, int ranks);

  /// Whether the slice is long enough: each rank then has a share, and the others' contributions to
  /// it find room.
  bool fits() const { return (ranks_ - 1) * shard_ < slice_.elements(); }

  /// The elements of the arena that the rank owns. All shares but the last are of the same size, a
  /// multiple of 32.
  ArenaRange share(int rank) const;
  /// Where in the owner's staging memory rank `from` puts its elements of the owner's share: as far
  /// from that share as a multiple of 32.
  ArenaRange place(int owner, int from) const;

 private:
  ArenaRange slice_;
  int ranks_;
  std::int64_t shard_;
};

}  // namespace tandem
