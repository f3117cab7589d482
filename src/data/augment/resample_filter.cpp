#include "data/augment/resample_filter.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tandem {
namespace {

// GCC's and clang's portable vectors; a processor without the width gets several instructions.
using Int8 = std::int32_t __attribute__((vector_size(32)));
using Int4 = std::int32_t __attribute__((vector_size(16)));
using Byte16 = std::uint8_t __attribute__((vector_size(16)));
using Byte32 = std::uint8_t __attribute__((vector_size(32)));
using Short16 = std::uint16_t __attribute__((vector_size(32)));

constexpr int lanes = 8;  ///< two pixels, one a row, of four values each; the fourth is anything

/// Stores the first two pixels of each 16-byte half of `shorts`, half by half.
inline void store_pixels(const Short16& shorts, std::int32_t* out) {
  constexpr Short16 zero{};
  const Short16 first = __builtin_shufflevector(shorts, zero, 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9,
                                                25, 10, 26, 11, 27);
  const Short16 second = __builtin_shufflevector(shorts, zero, 4, 20, 5, 21, 6, 22, 7, 23, 12, 28,
                                                 13, 29, 14, 30, 15, 31);
  std::memcpy(out, &first, sizeof first);
  std::memcpy(out + lanes, &second, sizeof second);
}

/// Two rows of RGB to pixels that take turns. Reads only the rows' own bytes.
void interleave(const std::uint8_t* in0, const std::uint8_t* in1, int width, std::int32_t* out) {
  int x = 0;
  for (; x + 6 <= width; x += 4, in0 += 12, in1 += 12, out += 4 * lanes) {  // 16 read for 12
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
    store_pixels(reinterpret_cast<const Short16&>(first), out);
    store_pixels(reinterpret_cast<const Short16&>(second), out + 2 * lanes);
  }
  for (; x < width; ++x, in0 += 3, in1 += 3, out += lanes) {
    for (int c = 0; c < 3; ++c) {
      out[c] = in0[c];
      out[c + 4] = in1[c];
    }
  }
}

/// `fixed_taps` taps, or `taps` where that is 0.
template <int fixed_taps>
void filter_rgb(const std::int32_t* pixels, const std::vector<int>& first,
                const std::int32_t* weights, int taps, std::int32_t* out0, std::int32_t* out1) {
  if (fixed_taps > 0) taps = fixed_taps;
  for (const int begin : first) {
    const std::int32_t* from = pixels + std::ptrdiff_t{lanes} * begin;
    Int8 sum = Int8{} + filter_half;
    for (int t = 0; t < taps; ++t, from += lanes) {
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

template <typename Weight>
Weight weight_of(double share) {
  if constexpr (std::is_same_v<Weight, float>) return static_cast<float>(share);
  constexpr int bits = std::is_same_v<Weight, std::uint16_t> ? 16 : filter_bits;
  const int rounded = static_cast<int>(share * (1 << bits) + 0.5);
  return static_cast<Weight>(bits == 16 ? std::min(rounded, 0xffff) : rounded);
}

}  // namespace

template <typename Weight>
TriangleFilter<Weight>::TriangleFilter(int in, double low, double length, int out, int begin,
                                       int count) {
  const double scale = length / out;
  const double support = std::max(scale, 1.0);  // the triangle reaches one sample, widened
  const double narrowing = 1.0 / support;
  const int least = std::max(0, static_cast<int>(std::floor(low)));
  const int most = std::min(in, static_cast<int>(std::ceil(low + length)));
  const int most_taps = static_cast<int>(std::ceil(support)) * 2 + 1;
  const auto outputs = static_cast<std::size_t>(count);
  // The inner loops go over outputs, not taps, so that the compiler makes vectors of them.
  std::vector<double> centers(outputs);
  first.resize(outputs);
  for (std::size_t i = 0; i < outputs; ++i) {
    centers[i] = low + (begin + static_cast<int>(i) + 0.5) * scale;
    first[i] = std::max(least, static_cast<int>(std::floor(centers[i] - support + 0.5)));
  }
  std::vector<double> totals(outputs);
  std::vector<double> all(outputs * static_cast<std::size_t>(most_taps));
  for (int t = 0; t < most_taps; ++t) {
    double* shares = all.data() + outputs * static_cast<std::size_t>(t);
    for (std::size_t i = 0; i < outputs; ++i) {
      const int x = first[i] + t;
      const double weight = std::max(0.0, 1.0 - std::abs((x - centers[i] + 0.5) * narrowing));
      shares[i] = x < most ? weight : 0.0;
      totals[i] += shares[i];
    }
  }
  std::vector<Weight> columns(all.size());
  for (int t = 0; t < most_taps; ++t) {
    const double* shares = all.data() + outputs * static_cast<std::size_t>(t);
    Weight* column = columns.data() + outputs * static_cast<std::size_t>(t);
    for (std::size_t i = 0; i < outputs; ++i) column[i] = weight_of<Weight>(shares[i] / totals[i]);
    if (std::any_of(column, column + outputs, [](Weight w) { return w != Weight{}; })) taps = t + 1;
  }
  const auto stride = static_cast<std::size_t>(taps);
  weights.resize(stride * outputs);
  for (std::size_t i = 0; i < outputs; ++i) {
    const int back = std::max(0, first[i] + taps - in);
    first[i] -= back;
    for (std::size_t t = static_cast<std::size_t>(back); t < stride; ++t) {
      weights[stride * i + t] = columns[outputs * (t - static_cast<std::size_t>(back)) + i];
    }
  }
}

template <typename Weight>
void TriangleFilter<Weight>::mirror() {
  std::reverse(first.begin(), first.end());
  for (std::size_t i = 0, k = first.size() - 1; i < k; ++i, --k) {
    const auto at = [&](std::size_t output) {
      return weights.begin() + static_cast<std::ptrdiff_t>(output) * taps;
    };
    std::swap_ranges(at(i), at(i + 1), at(k));
  }
}

template struct TriangleFilter<float>;
template struct TriangleFilter<std::int32_t>;
template struct TriangleFilter<std::uint16_t>;

RowFilter::RowFilter(const TriangleFilter<std::int32_t>& filter, int in, int channels)
    : in_(in), channels_(channels), taps_(filter.taps), first_(filter.first) {
  const std::size_t copies = channels == 1 ? 1 : 4;
  weights_.reserve(filter.weights.size() * copies);
  for (const std::int32_t weight : filter.weights) weights_.insert(weights_.end(), copies, weight);
  if (channels == 3) pixels_.resize(static_cast<std::size_t>(in) * lanes);
}

void RowFilter::apply(const std::uint8_t* in0, const std::uint8_t* in1, std::int32_t* out0,
                      std::int32_t* out1) {
  if (channels_ == 1) {
    apply_gray(in0, out0);
    apply_gray(in1, out1);
    return;
  }
  interleave(in0, in1, in_, pixels_.data());
  with_taps(taps_, [&](auto taps) {
    filter_rgb<taps>(pixels_.data(), first_, weights_.data(), taps_, out0, out1);
  });
}

void RowFilter::apply_gray(const std::uint8_t* in, std::int32_t* out) const {
  const std::int32_t* weights = weights_.data();
  for (const int begin : first_) {
    std::int32_t sum = filter_half;
    for (int t = 0; t < taps_; ++t) sum += in[begin + t] * weights[t];
    *out++ = filtered(sum);
    weights += taps_;
  }
}

}  // namespace tandem
