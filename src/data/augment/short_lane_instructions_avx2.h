#pragma once

// By name: the compilers do not find them reliably. With GCC 12 a crop takes 1.8 times as long by
// short_lane_instructions_portable.h.

#include <immintrin.h>

#include <bit>

#include "data/augment/short_vectors.h"

namespace tandem {

/// The upper 16 bits of each product.
inline Short16 high_product(const Short16& a, const Short16& b) {
  return std::bit_cast<Short16>(
      _mm256_mulhi_epu16(std::bit_cast<__m256i>(a), std::bit_cast<__m256i>(b)));
}

/// `low` in the lower half.
inline Short16 joined(const Short8& low, const Short8& high) {
  return std::bit_cast<Short16>(_mm256_inserti128_si256(
      _mm256_castsi128_si256(std::bit_cast<__m128i>(low)), std::bit_cast<__m128i>(high), 1));
}

}  // namespace tandem
