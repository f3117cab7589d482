#pragma once

// By name: the compilers do not find them reliably. By lane_instructions_portable.h a crop
// takes 1.8 times as long with GCC 12, when that is compiled for AVX2 too.

#include <immintrin.h>

#include "data/augment/resize_passes/vectors.h"

namespace tandem {
namespace {

/// The upper 16 bits of each product.
inline Short16 high_product(const Short16& a, const Short16& b) {
  return __builtin_bit_cast(
      Short16, _mm256_mulhi_epu16(__builtin_bit_cast(__m256i, a), __builtin_bit_cast(__m256i, b)));
}

/// `low` in the lower half.
inline Short16 joined(const Short8& low, const Short8& high) {
  return __builtin_bit_cast(
      Short16, _mm256_inserti128_si256(_mm256_castsi128_si256(__builtin_bit_cast(__m128i, low)),
                                       __builtin_bit_cast(__m128i, high), 1));
}

}  // namespace
}  // namespace tandem
