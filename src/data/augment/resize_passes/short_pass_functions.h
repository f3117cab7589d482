#pragma once

// The passes of a resize in 16-bit fixed point, for the files of resize_passes.h, each of which
// includes this once, behind its lane_instructions_*.h.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "data/augment/resize_passes/known_taps.h"
#include "data/augment/resize_passes/resize_passes.h"
#include "data/augment/resize_passes/short_lanes.h"

namespace tandem {
namespace {

// Both passes add up products of values of 8 + 8 bits and weights of 16, cut off to 8 + 8 bits.
//
// Along columns neighbours in memory have the same weights. Along rows they have not, so what the
// first pass made of `strip` rows is transposed: then those rows are neighbours.

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bytes are put above zeros");

constexpr int strip = ShortSizes::strip;
constexpr int group = ShortSizes::group;
constexpr int pixels = ShortSizes::pixels;
constexpr int half = strip / 2;
constexpr int chunk = 8;  ///< groups that are filtered before they are transposed, for the cache
constexpr int columns_back = 3 * pixels;

constexpr int lesser(int a, int b) { return a < b ? a : b; }

/// Calls run(0), run(1) and so on, `count` of them, which the compilers would leave a loop.
template <int count, typename Run>
inline void unrolled(const Run& run) {
  [&]<int... number>(std::integer_sequence<int, number...>) { (run(number), ...); }
  (std::make_integer_sequence<int, count>{});
}

class ShortPasses {
 public:
  explicit ShortPasses(const ShortResizePlan& plan)
      : plan_(plan), columns_(3 * plan.source.width) {}

  /// Tells write(first row, first column, that in the vectors' pattern, eight columns) all values
  /// of the result, some of them twice. A column is a vector of `strip` rows.
  template <typename Write>
  void run(const Write& write) {
    for (int begin = 0; begin < plan_.height; begin += strip) {
      const int top = lesser(begin, plan_.height - strip);  // the last overlaps the one before
      filter_strip(top);
      for (int left = 0; left < plan_.width; left += pixels) {
        const int x = lesser(left, plan_.width - pixels);
        Short16 made[columns_back];
        with_known_taps<ShortSizes::most_taps>(plan_.across_taps,
                                               [&]<int taps>() { filter_pixels<taps>(x, made); });
        for (int block = 0; block < columns_back; block += half) {
          write(top, 3 * x + block, block, made + block);
        }
      }
    }
  }

 private:
  /// The last group overlaps the one before, so that none reads past its row.
  int group_begin(int number) const { return lesser(number * group, columns_ - group); }

  /// `strip` output rows along columns, transposed.
  void filter_strip(int top) {
    const int groups = (columns_ + group - 1) / group;
    for (int first = 0; first < groups; first += chunk) {
      const int end = lesser(first + chunk, groups);
      with_known_taps<ShortSizes::most_taps>(plan_.down_taps, [&]<int taps>() {
        for (int y = 0; y < strip; ++y) {
          filter_columns<taps>(top + y, first, end, rows_ + y * chunk * group);
        }
      });
      transpose_chunk(first, end);
    }
  }

  /// Groups first .. end of output row y.
  template <int taps>
  void filter_columns(int y, int first, int end, std::uint16_t* out) const {
    const ImageView& source = plan_.source;
    const std::uint8_t* row = source.pixels + plan_.down_first[y] * source.row_stride;
    const std::uint32_t* weights = plan_.down_weights + std::ptrdiff_t{y} * taps;
    Short16 factors[taps];
    for (int t = 0; t < taps; ++t) factors[t] = spread(weights[t]);
    for (int number = first; number < end; ++number, out += group) {
      const std::uint8_t* in = row + group_begin(number);
      Short16 even{};
      Short16 odd{};
      unrolled<taps>([&](int t) {
        Short16 pairs;
        std::memcpy(&pairs, in, sizeof pairs);
        even += high_product(pairs << 8, factors[t]);
        odd += high_product(pairs & 0xff00, factors[t]);
        in += source.row_stride;
      });
      store_shorts(even, out);
      store_shorts(odd, out + group / 2);
    }
  }

  /// From rows_ to the plan's `turned`.
  void transpose_chunk(int first, int end) {
    constexpr std::ptrdiff_t stride = chunk * group;
    for (int number = first; number < end; ++number) {
      const std::uint16_t* in = rows_ + std::ptrdiff_t{group} * (number - first);
      Short16* out = plan_.turned + group_begin(number);
      for (int quarter = 0; quarter < 4; ++quarter) {
        const int place = quarter * half;
        Short16 block[half];
        for (int y = 0; y < half; ++y) {
          const std::uint16_t* from = in + place + y * stride;
          block[y] = load_halves(from, from + half * stride);
        }
        transpose_blocks(block);
        // The even columns of a group lie before its odd ones.
        Short16* to = out + quarter % 2 * strip + quarter / 2;
        for (int i = 0; i < half; ++i) to[2 * i] = block[i];
      }
    }
  }

  /// Output pixels x and on: a vector of `strip` rows for each channel of each.
  template <int taps>
  void filter_pixels(int x, Short16* made) const {
    const std::uint32_t* weights = plan_.across_weights + std::ptrdiff_t{x} * taps;
    const int* begin = plan_.across_first + x;
    for (int i = 0; i < pixels; ++i, weights += taps, made += 3) {
      const Short16* in = plan_.turned + std::ptrdiff_t{3} * begin[i];
      Short16 red{};
      Short16 green{};
      Short16 blue{};
      unrolled<taps>([&](int t) {
        const Short16 weight = spread(weights[t]);
        red += high_product(in[0], weight);
        green += high_product(in[1], weight);
        blue += high_product(in[2], weight);
        in += 3;
      });
      made[0] = red;
      made[1] = green;
      made[2] = blue;
    }
  }

  const ShortResizePlan& plan_;
  int columns_;  ///< of the source
  alignas(32) std::uint16_t rows_[strip * chunk * group];
};

void resize_shorts_to_floats(const ShortResizePlan& plan, const float* scale, const float* offset,
                             float* out) {
  Float8 scales[3];
  Float8 offsets[3];
  for (int i = 0; i < columns_back; ++i) {
    const float unit = scale[i % 3] / ShortSizes::one;
    scales[i / 8][i % 8] = unit;
    offsets[i / 8][i % 8] = offset[i % 3] + unit * static_cast<float>(plan.lost);
  }
  const std::ptrdiff_t stride = std::ptrdiff_t{3} * plan.width;
  ShortPasses(plan).run([&](int y, int column, int block, Short16* columns) {
    const Float8 factor = scales[block / 8];
    const Float8 addend = offsets[block / 8];
    float* to = out + y * stride + column;
    for (int first = 0; first < strip; first += 8) {
      Word8 pairs[4];
      transpose_pairs(reinterpret_cast<const std::uint16_t*>(columns) + first, strip, pairs);
      for (const Word8& pair : pairs) {
        store_floats(to_floats(pair & 0xffff) * factor + addend, to);
        store_floats(to_floats(pair >> 16) * factor + addend, to + stride);
        to += 2 * stride;
      }
    }
  });
}

void resize_shorts_to_bytes(const ShortResizePlan& plan, std::uint8_t* out) {
  const auto rounding = static_cast<std::uint16_t>(ShortSizes::one / 2 + plan.lost);
  const std::ptrdiff_t stride = std::ptrdiff_t{3} * plan.width;
  ShortPasses(plan).run([&](int y, int column, int, Short16* columns) {
    std::uint8_t* to = out + y * stride + column;
    transpose_blocks(columns);
    for (int row = 0; row < half; ++row, to += stride) {
      const Short16 levels = (columns[row] + rounding) >> 8;
      std::uint8_t bytes[strip];
      for (int k = 0; k < strip; ++k) bytes[k] = static_cast<std::uint8_t>(levels[k]);
      std::memcpy(to, bytes, half);
      std::memcpy(to + stride * half, bytes + half, half);
    }
  });
}

}  // namespace
}  // namespace tandem
