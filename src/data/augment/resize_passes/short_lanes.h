#pragma once

// Vectors of 16-bit values for the files of resize_passes.h, each of which is compiled for other
// instructions: so nothing here is known to the linker. Behind lane_instructions_*.h.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "data/augment/resize_passes/vectors.h"

namespace tandem {
namespace {

inline Float8 to_floats(const Word8& values) {
  return __builtin_convertvector(__builtin_bit_cast(Int8, values), Float8);
}

/// `pair` eight times, which is a 16-bit value sixteen times where both of its halves are that
/// value: a load can do this with 32 bits and not with 16.
inline Short16 spread(std::uint32_t pair) { return __builtin_bit_cast(Short16, Word8{} + pair); }

/// Eight values from either place.
inline Short16 load_halves(const std::uint16_t* low, const std::uint16_t* high) {
  Short8 a;
  Short8 b;
  std::memcpy(&a, low, sizeof a);
  std::memcpy(&b, high, sizeof b);
  return joined(a, b);
}

inline void store_shorts(const Short16& values, std::uint16_t* to) {
  std::memcpy(to, &values, sizeof values);
}

inline void store_floats(const Float8& values, float* to) {
  std::memcpy(to, &values, sizeof values);
}

/// Transposes two blocks of 8 x 8, one in the lower halves of `rows`, one in the upper halves.
inline void transpose_blocks(Short16* rows) {
  // Six bits name a value's place: three its row, three its column. Each round turns them by one.
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    Short16 turned[8];
    for (int i = 0; i < 4; ++i) {
      turned[2 * i] = __builtin_shufflevector(rows[i], rows[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 8,
                                              24, 9, 25, 10, 26, 11, 27);
      turned[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 4], 4, 20, 5, 21, 6, 22, 7, 23,
                                                  12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int i = 0; i < 8; ++i) rows[i] = turned[i];
  }
}

/// Eight values of each of eight columns, `stride` apart, to four vectors of a word a column: the
/// first holds the columns' first values in its words' lower halves and their second values in the
/// upper ones, and so on. This saves a third of the shuffles, and spares widening the values.
inline void transpose_pairs(const std::uint16_t* columns, std::ptrdiff_t stride, Word8* pairs) {
  for (int i = 0; i < 4; ++i) {
    const std::uint16_t* column = columns + stride * i;
    pairs[i] = __builtin_bit_cast(Word8, load_halves(column, column + 4 * stride));
  }
  constexpr int rounds = 2;
  for (int round = 0; round < rounds; ++round) {
    Word8 turned[4];
    for (int i = 0; i < 2; ++i) {
      turned[2 * i] = __builtin_shufflevector(pairs[i], pairs[i + 2], 0, 8, 1, 9, 4, 12, 5, 13);
      turned[2 * i + 1] =
          __builtin_shufflevector(pairs[i], pairs[i + 2], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 4; ++i) pairs[i] = turned[i];
  }
}

}  // namespace
}  // namespace tandem
