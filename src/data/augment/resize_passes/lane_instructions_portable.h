#pragma once

// Without AVX2. lane_instructions_avx2.h has the same functions.

#include <cstdint>

#include "data/augment/resize_passes/vectors.h"

namespace tandem {
namespace {

/// The upper 16 bits of each product.
inline Short16 high_product(const Short16& a, const Short16& b) {
  using Word16 = std::uint32_t __attribute__((vector_size(64)));
  const Word16 product = __builtin_convertvector(a, Word16) * __builtin_convertvector(b, Word16);
  return __builtin_convertvector(product >> 16, Short16);
}

inline Short16 joined(const Short8& low, const Short8& high) {
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

}  // namespace
}  // namespace tandem
