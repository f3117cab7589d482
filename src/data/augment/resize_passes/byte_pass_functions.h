#pragma once

// The passes of a resize in 8 bits, for the files of resize_passes.h, each of which includes this
// once. Vectors are the compilers' own: what they make of them is good with either instructions.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "data/augment/resize_passes/known_taps.h"
#include "data/augment/resize_passes/resize_passes.h"

namespace tandem {
namespace {

constexpr std::size_t byte_lanes = interleaved_values;
constexpr int common_taps = 8;

/// Stores the first two pixels of each 16-byte half of `shorts`, half by half.
inline void store_pixels(const Short16& shorts, std::int32_t* out) {
  constexpr Short16 zero{};
  const Short16 first = __builtin_shufflevector(shorts, zero, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9,
                                                25, 10, 26, 11, 27);
  const Short16 second = __builtin_shufflevector(shorts, zero, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28,
                                                 13, 29, 14, 30, 15, 31);
  std::memcpy(out, &first, sizeof first);
  std::memcpy(out + byte_lanes, &second, sizeof second);
}

/// Reads only the rows' own bytes.
void interleave_byte_rows(const std::uint8_t* in0, const std::uint8_t* in1, int width,
                          std::int32_t* out) {
  int x = 0;
  for (; x + 6 <= width; x += 4, in0 += 12, in1 += 12, out += 4 * byte_lanes) {  // 16 for 12
    Byte16 a;
    Byte16 b;
    std::memcpy(&a, in0, sizeof a);
    std::memcpy(&b, in1, sizeof b);
    a = __builtin_shufflevector(a, a, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
    b = __builtin_shufflevector(b, b, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11);
    const Byte32 both =
        __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17,
                                18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
    constexpr Byte32 zero{};
    const Byte32 first =
        __builtin_shufflevector(both, zero, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54, 23, 55);
    const Byte32 second = __builtin_shufflevector(both, zero, 8, 40, 9, 41, 10, 42, 11, 43, 12, 44,
                                                  13, 45, 14, 46, 15, 47, 24, 56, 25, 57, 26, 58,
                                                  27, 59, 28, 60, 29, 61, 30, 62, 31, 63);
    store_pixels(__builtin_bit_cast(Short16, first), out);
    store_pixels(__builtin_bit_cast(Short16, second), out + 2 * byte_lanes);
  }
  for (; x < width; ++x, in0 += 3, in1 += 3, out += byte_lanes) {
    for (int c = 0; c < 3; ++c) {
      out[c] = in0[c];
      out[c + 4] = in1[c];
    }
  }
}

/// `fixed_taps` taps, or `taps` where that is 0.
template <int fixed_taps>
inline void filter_rgb(const std::int32_t* interleaved, const int* first, std::size_t count,
                       const std::int32_t* weights, int taps, std::int32_t* out0,
                       std::int32_t* out1) {
  if (fixed_taps > 0) taps = fixed_taps;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t* from = interleaved + static_cast<std::ptrdiff_t>(byte_lanes) * first[i];
    Int8 sum = Int8{} + filter_half;
    for (int t = 0; t < taps; ++t, from += byte_lanes) {
      Int8 values;
      Int4 factors;
      std::memcpy(&values, from, sizeof values);
      std::memcpy(&factors, weights, sizeof factors);
      sum += values * __builtin_shufflevector(factors, factors, 0, 1, 2, 3, 0, 1, 2, 3);
      weights += 4;
    }
    sum >>= filter_bits;
    // Four values are written for three; the next pixel's take the fourth's place.
    std::memcpy(out0, &sum, sizeof sum / 2);
    std::memcpy(out1, reinterpret_cast<const char*>(&sum) + sizeof sum / 2, sizeof sum / 2);
    out0 += 3;
    out1 += 3;
  }
}

void filter_byte_pixels(const std::int32_t* interleaved, const int* first, std::size_t count,
                        const std::int32_t* weights, int taps, std::int32_t* out0,
                        std::int32_t* out1) {
  const bool common = with_known_taps<common_taps>(taps, [&]<int known>() {
    filter_rgb<known>(interleaved, first, count, weights, taps, out0, out1);
  });
  if (!common) filter_rgb<0>(interleaved, first, count, weights, taps, out0, out1);
}

/// For a count of taps that the compiler knows nothing is looked up in the loop. Returns how many
/// of the outputs it made, vectors of them.
template <int taps>
inline std::size_t filter_column_vectors(const std::int32_t* const* rows,
                                         const std::int32_t* weights, std::size_t count,
                                         std::uint8_t* out) {
  const std::int32_t* row[taps];
  Int8 factors[taps];
  for (int t = 0; t < taps; ++t) {
    row[t] = rows[t];
    factors[t] = Int8{} + weights[t];
  }
  std::size_t i = 0;
  for (; i + byte_lanes <= count; i += byte_lanes) {
    Int8 sum = Int8{} + filter_half;
    for (int t = 0; t < taps; ++t) {
      Int8 values;
      std::memcpy(&values, row[t] + i, sizeof values);
      sum += values * factors[t];
    }
    sum >>= filter_bits;
    for (std::size_t k = 0; k < byte_lanes; ++k) out[i + k] = static_cast<std::uint8_t>(sum[k]);
  }
  return i;
}

void filter_byte_columns(const std::int32_t* const* rows, const std::int32_t* weights, int taps,
                         std::size_t count, std::uint8_t* out) {
  std::size_t made = 0;
  with_known_taps<common_taps>(
      taps, [&]<int known>() { made = filter_column_vectors<known>(rows, weights, count, out); });
  for (std::size_t i = made; i < count; ++i) {
    std::int32_t sum = filter_half;
    for (int t = 0; t < taps; ++t) sum += rows[t][i] * weights[t];
    out[i] = static_cast<std::uint8_t>(sum >> filter_bits);
  }
}

}  // namespace
}  // namespace tandem
