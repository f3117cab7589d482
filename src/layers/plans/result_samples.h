#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem {

/// Elements of a tensor that stand for all of it: one in each run of `step` neighbours, at places
/// that look random, so that no pattern of rows or channels hides between them. With a step of one,
/// all elements.
struct ResultSamples {
  std::int64_t count = 0;
  std::int64_t step = 1;

  /// About `wanted` samples, at most twice as many; all where the tensor has no more.
  static constexpr ResultSamples of(std::int64_t elements, std::int64_t wanted) {
    const std::int64_t step = std::max<std::int64_t>(elements / wanted, 1);
    return {.count = elements / step, .step = step};
  }

  /// Where the sample lies: step * sample <= place < step * (sample + 1).
  constexpr std::int64_t place(std::int64_t sample) const {
    const std::uint64_t mixed = (static_cast<std::uint64_t>(sample) + 1) * 0x9e3779b97f4a7c15U;
    return sample * step +
           static_cast<std::int64_t>((mixed >> 32U) % static_cast<std::uint64_t>(step));
  }
};

}  // namespace tandem
