#include "parallel/peer_copy/copy_layout.h"

#include <algorithm>

namespace tandem {
namespace {

/// Elements of a 128-byte line: copies and 16-byte accesses then begin alike in all shares.
constexpr std::int64_t line = 32;

}  // namespace

CopyLayout::CopyLayout(const ArenaRange& slice, int ranks)
    : slice_(slice),
      ranks_(ranks),
      shard_((slice.elements() + ranks * line - 1) / (ranks * line) * line) {}

ArenaRange CopyLayout::share(int rank) const {
  const std::int64_t first = slice_.begin + rank * shard_;
  return {first, std::min(first + shard_, slice_.end)};
}

ArenaRange CopyLayout::place(int owner, int from) const {
  const int before = from < owner ? from : from - 1;
  const std::int64_t first = slice_.begin + before * shard_;
  return {first, first + share(owner).elements()};
}

}  // namespace tandem
