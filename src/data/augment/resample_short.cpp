#include "data/augment/resample_short.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>

#include "base/error.h"
#include "data/augment/resample_filter.h"
#include "data/augment/short_lanes.h"

namespace tandem {
namespace {

// Both passes add up products of values of 8 + 8 bits and weights of 16, cut off to 8 + 8 bits.
//
// Along columns neighbours in memory have the same weights. Along rows they have not, so what the
// first pass made of `strip` rows is transposed: then those rows are neighbours.

static_assert(std::endian::native == std::endian::little, "bytes are put above zeros");

constexpr int strip = 16;  ///< output rows at a time: the lanes of a vector
constexpr int group = 32;  ///< columns (a pixel has three) of the first pass that share a vector
constexpr int chunk = 8;   ///< groups that are filtered before they are transposed, for the cache
constexpr int pixels = 8;  ///< output pixels of the second pass that are transposed back together
constexpr int columns_back = 3 * pixels;
constexpr int one = 256;

using Filter = TriangleFilter<std::uint16_t>;

std::vector<std::uint32_t> in_pairs(const std::vector<std::uint16_t>& weights) {
  std::vector<std::uint32_t> pairs(weights.size());
  std::transform(weights.begin(), weights.end(), pairs.begin(),
                 [](std::uint16_t weight) { return weight * 0x10001U; });
  return pairs;
}

/// Calls run(0), run(1) and so on, `count` of them, which the compilers would leave a loop.
template <int count, typename Run>
inline void unrolled(const Run& run) {
  [&]<int... number>(std::integer_sequence<int, number...>) { (run(number), ...); }
  (std::make_integer_sequence<int, count>{});
}

/// with_taps() for counts that fits_shorts() has bounded.
template <typename Run>
void with_few_taps(int taps, const Run& run) {
  with_taps(taps, [&](auto known) {
    if constexpr (known == 0) {
      throw Error("a filter of too many taps");
    } else {
      run(known);
    }
  });
}

inline void store_floats(const Float8& values, float* to) {
  std::memcpy(to, &values, sizeof values);
}

class ShortResizer {
 public:
  ShortResizer(const ImageView& source, const FloatResize& wanted);

  /// What cut off products lose on average: half a unit each.
  int lost() const { return (down_.taps + across_.taps) / 2; }

  /// Tells write(first row, first column, that in the vectors' pattern, eight columns) all values
  /// of the result, some of them twice. A column is a vector of `strip` rows.
  template <typename Write>
  void run(const Write& write);

 private:
  int groups() const { return (columns_ + group - 1) / group; }
  /// The last group overlaps the one before, so that none reads past its row.
  int group_begin(int number) const { return std::min(number * group, columns_ - group); }

  template <int taps>
  void filter_columns(int y, int first, int end, std::uint16_t* out) const;
  void transpose_chunk(int first, int end);
  template <int taps>
  void filter_pixels(int x, Short16* made) const;

  ImageView source_;
  int height_;
  int width_;
  int columns_;  ///< of the source
  Filter down_;
  Filter across_;
  std::vector<std::uint32_t> down_weights_;  ///< each twice
  std::vector<std::uint32_t> across_weights_;
  alignas(group) std::array<std::uint16_t, strip * chunk * group> rows_;
  std::unique_ptr<Short16[]> turned_;  ///< one a column: its values in `strip` rows
};

ShortResizer::ShortResizer(const ImageView& source, const FloatResize& wanted)
    : source_(source),
      height_(wanted.height),
      width_(wanted.width),
      columns_(3 * source.width),
      down_(source.height, wanted.box.top, wanted.box.height, height_, 0, height_),
      across_(source.width, wanted.box.left, wanted.box.width, width_, 0, width_),
      turned_(std::make_unique_for_overwrite<Short16[]>(static_cast<std::size_t>(columns_))) {
  if (wanted.mirrored) across_.mirror();
  down_weights_ = in_pairs(down_.weights);
  across_weights_ = in_pairs(across_.weights);
}

/// Groups first .. end of output row y.
template <int taps>
void ShortResizer::filter_columns(int y, int first, int end, std::uint16_t* out) const {
  const auto at = static_cast<std::size_t>(y);
  const std::uint8_t* row = source_.row(down_.first[at]);
  const std::uint32_t* weights = down_weights_.data() + at * static_cast<std::size_t>(taps);
  Short16 factors[taps];
  for (std::size_t t = 0; t < taps; ++t) factors[t] = spread(weights[t]);
  for (int number = first; number < end; ++number, out += group) {
    const std::uint8_t* in = row + group_begin(number);
    Short16 even{};
    Short16 odd{};
    unrolled<taps>([&](int t) {
      Short16 pairs;
      std::memcpy(&pairs, in, sizeof pairs);
      even += high_product(pairs << 8, factors[t]);
      odd += high_product(pairs & 0xff00, factors[t]);
      in += source_.row_stride;
    });
    store_shorts(even, out);
    store_shorts(odd, out + group / 2);
  }
}

/// From rows_ to turned_.
void ShortResizer::transpose_chunk(int first, int end) {
  constexpr int half = strip / 2;
  constexpr std::ptrdiff_t stride = chunk * group;
  for (int number = first; number < end; ++number) {
    const std::uint16_t* in = rows_.data() + std::ptrdiff_t{group} * (number - first);
    Short16* out = turned_.get() + group_begin(number);
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
void ShortResizer::filter_pixels(int x, Short16* made) const {
  const auto at = static_cast<std::size_t>(x);
  const std::uint32_t* weights = across_weights_.data() + at * static_cast<std::size_t>(taps);
  const int* begin = across_.first.data() + at;
  for (int i = 0; i < pixels; ++i, weights += taps, made += 3) {
    const Short16* in = turned_.get() + std::ptrdiff_t{3} * begin[i];
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

template <typename Write>
void ShortResizer::run(const Write& write) {
  constexpr int half = strip / 2;
  for (int begin = 0; begin < height_; begin += strip) {
    const int top = std::min(begin, height_ - strip);  // the last strip overlaps the one before
    for (int first = 0; first < groups(); first += chunk) {
      const int end = std::min(first + chunk, groups());
      with_few_taps(down_.taps, [&](auto taps) {
        for (int y = 0; y < strip; ++y) {
          filter_columns<taps>(top + y, first, end, rows_.data() + y * chunk * group);
        }
      });
      transpose_chunk(first, end);
    }
    for (int left = 0; left < width_; left += pixels) {
      const int x = std::min(left, width_ - pixels);
      Short16 made[columns_back];
      with_few_taps(across_.taps, [&](auto taps) { filter_pixels<taps>(x, made); });
      for (int block = 0; block < columns_back; block += half) {
        write(top, 3 * x + block, block, made + block);
      }
    }
  }
}

}  // namespace

bool fits_shorts(const ImageView& source, const FloatResize& wanted) {
  // The triangle is seven inputs wide then, so that it touches eight: as many as with_taps() knows.
  constexpr double most_reduced = 3.5;
  return source.channels == 3 && 3 * source.width >= group && wanted.height >= strip &&
         wanted.width >= pixels && wanted.box.height <= most_reduced * wanted.height &&
         wanted.box.width <= most_reduced * wanted.width;
}

void resize_shorts(const ImageView& source, const FloatResize& wanted, float* out) {
  TANDEM_CHECK(fits_shorts(source, wanted), "cannot resize to {}x{}", wanted.height, wanted.width);
  ShortResizer resizer(source, wanted);
  Float8 scales[3];
  Float8 offsets[3];
  for (std::size_t i = 0; i < columns_back; ++i) {
    const float scale = wanted.scale[i % 3] / one;
    scales[i / 8][i % 8] = scale;
    offsets[i / 8][i % 8] = wanted.offset[i % 3] + scale * static_cast<float>(resizer.lost());
  }
  const std::ptrdiff_t stride = std::ptrdiff_t{3} * wanted.width;
  resizer.run([&](int y, int column, int block, Short16* columns) {
    const Float8 scale = scales[block / 8];
    const Float8 offset = offsets[block / 8];
    float* to = out + y * stride + column;
    for (int first = 0; first < strip; first += 8) {
      Word8 pairs[4];
      transpose_pairs(reinterpret_cast<const std::uint16_t*>(columns) + first, strip, pairs);
      for (const Word8& pair : pairs) {
        store_floats(to_floats(pair & 0xffff) * scale + offset, to);
        store_floats(to_floats(pair >> 16) * scale + offset, to + stride);
        to += 2 * stride;
      }
    }
  });
}

void resize_shorts(const ImageView& source, const FloatResize& wanted, std::uint8_t* out) {
  TANDEM_CHECK(fits_shorts(source, wanted), "cannot resize to {}x{}", wanted.height, wanted.width);
  ShortResizer resizer(source, wanted);
  const auto rounding = static_cast<std::uint16_t>(one / 2 + resizer.lost());
  const std::ptrdiff_t stride = std::ptrdiff_t{3} * wanted.width;
  resizer.run([&](int y, int column, int, Short16* columns) {
    std::uint8_t* to = out + y * stride + column;
    transpose_blocks(columns);
    for (int row = 0; row < strip / 2; ++row, to += stride) {
      const Short16 levels = (columns[row] + rounding) >> 8;
      std::uint8_t bytes[strip];
      for (std::size_t k = 0; k < strip; ++k) bytes[k] = static_cast<std::uint8_t>(levels[k]);
      std::memcpy(to, bytes, strip / 2);
      std::memcpy(to + stride * strip / 2, bytes + strip / 2, strip / 2);
    }
  });
}

}  // namespace tandem
