#include "data/augment/resample_float.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "data/augment/resample_filter.h"
#include "data/augment/resample_short.h"
#include "data/augment/resize_passes/known_taps.h"
#include "data/fused.h"

namespace tandem {
namespace {

constexpr std::size_t lanes = 8;

constexpr int common_taps = 8;  ///< the most that the compiler knows

/// Output rows that are filtered along x together, so that a weight is loaded once for all.
constexpr int group = 4;

/// out = the weighted sum of `taps` rows; writes whole vectors.
template <int fixed_taps>
void filter_columns(const float* const* rows, const float* weights, int taps, std::size_t count,
                    float* out) {
  if constexpr (fixed_taps > 0) {
    const float* row[fixed_taps];
    Float8 factors[fixed_taps];
    for (int t = 0; t < fixed_taps; ++t) {
      row[t] = rows[t];
      factors[t] = Float8{} + weights[t];
    }
    for (std::size_t i = 0; i < count; i += lanes) {
      Float8 sum{};
      for (int t = 0; t < fixed_taps; ++t) {
        Float8 values;
        std::memcpy(&values, row[t] + i, sizeof values);
        sum += values * factors[t];
      }
      std::memcpy(out + i, &sum, sizeof sum);
    }
  } else {
    std::fill(out, out + count, 0.0F);
    for (int t = 0; t < taps; ++t) {
      const float* row = rows[t];
      for (std::size_t i = 0; i < count; ++i) out[i] += row[i] * weights[t];
    }
  }
}

/// A pixel of three values as four, the last one anything.
inline void load_pixel(const float* from, Float4& pixel) {
  std::memcpy(&pixel, from, sizeof pixel);
}

struct RowPass {
  const TriangleFilter<float>* filter;
  const float* weights;  ///< of `filter`, each four times
  Float4 scale;
  Float4 offset;
};

/// One pixel of each of `group` rows, filtered and scaled.
template <int fixed_taps>
inline void filter_pixels(const RowPass& pass, std::size_t x, const float* in,
                          std::size_t in_stride, Float4* sums) {
  const int taps = fixed_taps > 0 ? fixed_taps : pass.filter->taps;
  const float* from = in + std::ptrdiff_t{3} * pass.filter->first[x];
  const float* weights = pass.weights + 4 * x * static_cast<std::size_t>(taps);
  for (std::size_t y = 0; y < group; ++y) sums[y] = Float4{};
  for (int t = 0; t < taps; ++t, from += 3, weights += 4) {
    Float4 factors;
    load_pixel(weights, factors);
    for (std::size_t y = 0; y < group; ++y) {
      Float4 pixel;
      load_pixel(from + y * in_stride, pixel);
      sums[y] += pixel * factors;
    }
  }
  for (std::size_t y = 0; y < group; ++y) sums[y] = sums[y] * pass.scale + pass.offset;
}

/// `group` rows along x, from rows `in_stride` apart.
template <int fixed_taps>
void filter_rows(const RowPass& pass, const float* in, std::size_t in_stride, float* out) {
  const std::size_t last = pass.filter->first.size() - 1;
  const std::size_t stride = 3 * (last + 1);
  Float4 sums[group];
  for (std::size_t x = 0; x < last; ++x) {
    filter_pixels<fixed_taps>(pass, x, in, in_stride, sums);
    // The fourth value lies where the next pixel will.
    for (std::size_t y = 0; y < group; ++y) {
      std::memcpy(out + y * stride + 3 * x, &sums[y], sizeof sums[y]);
    }
  }
  filter_pixels<fixed_taps>(pass, last, in, in_stride, sums);
  for (std::size_t y = 0; y < group; ++y) {
    std::memcpy(out + y * stride + 3 * last, &sums[y], 3 * sizeof(float));
  }
}

/// Rows of the source as floats, the last few of them kept.
class FloatRows {
 public:
  FloatRows(const ImageView& source, int first, int kept)
      : source_(source),
        next_(first),
        kept_(kept),
        values_(static_cast<std::size_t>(source.width) * 3),
        stride_((values_ + lanes - 1) / lanes * lanes),
        rows_(stride_ * static_cast<std::size_t>(kept)) {}

  std::size_t values() const { return values_; }
  std::size_t stride() const { return stride_; }

  /// Row y; asked for in windows that only move down and are at most `kept` rows high.
  const float* row(int y) {
    for (; next_ <= y; ++next_) {
      const std::uint8_t* in = source_.row(next_);
      float* out = place(next_);
      for (std::size_t i = 0; i < values_; ++i) out[i] = static_cast<float>(in[i]);
    }
    return place(y);
  }

 private:
  float* place(int y) { return rows_.data() + stride_ * static_cast<std::size_t>(y % kept_); }

  ImageView source_;
  int next_;
  int kept_;
  std::size_t values_;
  std::size_t stride_;
  std::vector<float> rows_;
};

void make_row(FloatRows& rows, const TriangleFilter<float>& down, int y, float* out) {
  const auto taps = static_cast<std::size_t>(down.taps);
  const auto at = static_cast<std::size_t>(y);
  std::vector<const float*> window(taps);
  for (int t = 0; t < down.taps; ++t) {
    window[static_cast<std::size_t>(t)] = rows.row(down.first[at] + t);
  }
  const float* weights = down.weights.data() + at * taps;
  const bool common = with_known_taps<common_taps>(down.taps, [&]<int known>() {
    filter_columns<known>(window.data(), weights, down.taps, rows.values(), out);
  });
  if (!common) filter_columns<0>(window.data(), weights, down.taps, rows.values(), out);
}

/// Resizes to floats, `group` rows at a time: asks place(y, count) where rows y and on are to be
/// written, room for `group` of them, and tells done(y, count) when they are.
template <typename Place, typename Done>
void resize_groups(const ImageView& source, const FloatResize& wanted, Place&& place, Done&& done) {
  TANDEM_CHECK(source.channels == 3 && wanted.height > 0 && wanted.width > 0,
               "cannot resize {} channels to {}x{}", source.channels, wanted.height, wanted.width);
  const RealRect& box = wanted.box;
  const TriangleFilter<float> down(source.height, box.top, box.height, wanted.height, 0,
                                   wanted.height);
  TriangleFilter<float> across(source.width, box.left, box.width, wanted.width, 0, wanted.width);
  if (wanted.mirrored) across.mirror();
  std::vector<float> weights;
  for (const float weight : across.weights) weights.insert(weights.end(), 4, weight);
  const RowPass pass{&across,
                     weights.data(),
                     {wanted.scale[0], wanted.scale[1], wanted.scale[2], 0.0F},
                     {wanted.offset[0], wanted.offset[1], wanted.offset[2], 0.0F}};

  FloatRows rows(source, down.first.front(), down.taps);
  // Pixels are read as four values: there must be one behind a row.
  const std::size_t stride = rows.stride() + lanes;
  std::vector<float> filtered(stride * group);
  for (int y = 0; y < wanted.height; y += group) {
    const int count = std::min(group, wanted.height - y);
    for (int k = 0; k < count; ++k) {
      make_row(rows, down, y + k, filtered.data() + stride * static_cast<std::size_t>(k));
    }
    float* made = place(y, count);
    const bool common = with_known_taps<common_taps>(
        across.taps, [&]<int known>() { filter_rows<known>(pass, filtered.data(), stride, made); });
    if (!common) filter_rows<0>(pass, filtered.data(), stride, made);
    done(y, count);
  }
}

}  // namespace

void resize_to_floats(const ImageView& source, const FloatResize& wanted, float* out) {
  if (fits_shorts(source, wanted)) return resize_shorts(source, wanted, out);
  const std::ptrdiff_t values = std::ptrdiff_t{3} * wanted.width;
  std::vector<float> rest(static_cast<std::size_t>(values) * group);
  resize_groups(
      source, wanted,
      [&](int y, int count) { return count == group ? out + y * values : rest.data(); },
      [&](int y, int count) {
        if (count < group) std::copy_n(rest.data(), values * count, out + y * values);
      });
}

void resize_to_bytes(const ImageView& source, const FloatResize& wanted, std::uint8_t* out) {
  if (fits_shorts(source, wanted)) return resize_shorts(source, wanted, out);
  const std::ptrdiff_t values = std::ptrdiff_t{3} * wanted.width;
  std::vector<float> rows(static_cast<std::size_t>(values) * group);
  FloatResize raised = wanted;
  raised.scale.fill(1.0F);
  raised.offset.fill(0.5F);  // so that cutting off rounds
  resize_groups(
      source, raised, [&](int, int) { return rows.data(); },
      [&](int y, int count) {
        std::uint8_t* to = out + y * values;
        for (std::ptrdiff_t i = 0; i < values * count; ++i)
          to[i] = to_level(rows[static_cast<std::size_t>(i)]);
      });
}

}  // namespace tandem
