#pragma once

#include <cmath>
#include <cstdint>

#include "base/hash.h"

namespace tandem {

/// Element `i` of an operand that plans are tried on: a number between -scale and scale that looks
/// random, the same for the same seed.
constexpr float trial_operand(std::int64_t i, unsigned seed, float scale) {
  const std::uint64_t bits =
      mix64(static_cast<std::uint64_t>(i) + (static_cast<std::uint64_t>(seed) << 48U));
  return static_cast<float>(static_cast<std::int32_t>(bits >> 32U)) * (0x1p-31F * scale);
}

/// The power of two next to the root of a sum's number of terms. What is added to sums of products
/// of trial operands, which grow with that root, must be as large, or it would not show beside
/// them; and every dtype holds a power of two.
inline float scale_beside_sums(std::int64_t terms) {
  return std::exp2(std::round(0.5F * std::log2(static_cast<float>(terms))));
}

}  // namespace tandem
