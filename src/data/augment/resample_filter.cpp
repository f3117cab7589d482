#include "data/augment/resample_filter.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace tandem {
namespace {

template <typename Weight>
Weight weight_of(double share) {
  if constexpr (std::is_same_v<Weight, float>) return static_cast<float>(share);
  constexpr int bits = std::is_same_v<Weight, std::uint16_t> ? 16 : filter_bits;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): never negative, and a loop of vectors like this
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
    for (auto t = static_cast<std::size_t>(back); t < stride; ++t) {
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

RowFilter::RowFilter(const TriangleFilter<std::int32_t>& filter, int in, int channels,
                     const ResizePasses& passes)
    : passes_(passes), in_(in), channels_(channels), taps_(filter.taps), first_(filter.first) {
  const std::size_t copies = channels == 1 ? 1 : 4;
  weights_.reserve(filter.weights.size() * copies);
  for (const std::int32_t weight : filter.weights) weights_.insert(weights_.end(), copies, weight);
  if (channels == 3) pixels_.resize(interleaved_values * static_cast<std::size_t>(in));
}

void RowFilter::apply(const std::uint8_t* in0, const std::uint8_t* in1, std::int32_t* out0,
                      std::int32_t* out1) {
  if (channels_ == 1) {
    apply_gray(in0, out0);
    apply_gray(in1, out1);
    return;
  }
  passes_.interleave_rows(in0, in1, in_, pixels_.data());
  passes_.filter_pixels(pixels_.data(), first_.data(), first_.size(), weights_.data(), taps_, out0,
                        out1);
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
