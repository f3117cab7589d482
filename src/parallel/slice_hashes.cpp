#include "parallel/slice_hashes.h"

#include <bit>

namespace tandem {
namespace {

/// The slices, then what lies between and behind them.
std::vector<ElementRange> ranges_of(const Tensor& arena, std::span<const ParameterSlice> slices) {
  std::vector<ElementRange> ranges;
  std::vector<ElementRange> gaps;
  std::int64_t end = 0;
  const auto add_gap = [&](std::int64_t until) {
    if (until > end) gaps.push_back({end, until - end});
  };
  for (const ParameterSlice& slice : slices) {
    TANDEM_CHECK(slice.elements >= 0 && slice.offset >= end &&
                     slice.offset + slice.elements <= arena.elements(),
                 "slice {} ({} elements at {}) lies outside the arena of {}, or overlaps the one "
                 "before it",
                 slice.name, slice.elements, slice.offset, arena.elements());
    add_gap(slice.offset);
    ranges.push_back({slice.offset, slice.elements});
    end = slice.offset + slice.elements;
  }
  add_gap(arena.elements());
  ranges.insert(ranges.end(), gaps.begin(), gaps.end());
  return ranges;
}

}  // namespace

SliceHashes hash_slices(AnyContext& context, const Tensor& arena,
                        std::span<const ParameterSlice> slices) {
  TANDEM_CHECK(arena.dtype() == DType::f32 && arena.elements() < (std::int64_t{1} << 32),
               "{} elements of {} to hash", arena.elements(), name_of(arena.dtype()));
  const std::vector<ElementRange> ranges = ranges_of(arena, slices);
  const auto* elements = static_cast<const std::uint32_t*>(arena.raw());
  const std::vector<std::uint64_t> hashes =
      std::visit([&](auto& device) { return hash_ranges(device, elements, ranges); }, context);
  SliceHashes result;
  std::uint64_t whole = 0;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    whole += hashes[i];
    if (i < slices.size()) result.slices.push_back(std::bit_cast<std::int64_t>(hashes[i]));
  }
  result.whole = std::bit_cast<std::int64_t>(whole);
  return result;
}

}  // namespace tandem
