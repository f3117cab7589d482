#include "parallel/slice_share.h"

#include <algorithm>

namespace tandem {
namespace {

constexpr std::int64_t line = 32;
constexpr std::int64_t pack = 4;

/// Where member `member`'s share begins.
std::int64_t cut(const ArenaRange& slice, int members, int member) {
  if (member == 0) return slice.begin;
  if (member == members) return slice.end;
  const std::int64_t even = slice.begin + slice.elements() * member / members;
  return std::max(slice.begin, even / line * line);
}

}  // namespace

ArenaRange share_of(const ArenaRange& slice, int members, int member) {
  return {cut(slice, members, member), cut(slice, members, member + 1)};
}

PackedRange::PackedRange(const ArenaRange& range)
    : first((range.begin + pack - 1) / pack), last(range.end / pack) {
  if (first >= last) {
    last = first;
    head = range;
    tail = {range.end, range.end};
  } else {
    head = {range.begin, first * pack};
    tail = {last * pack, range.end};
  }
}

}  // namespace tandem
