#include "data/resample.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

constexpr int precision = 22;
constexpr std::int32_t half = 1 << (precision - 1);

std::uint8_t to_byte(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> precision, 0, 255));
}

/// For each output position of one axis: where its inputs begin, how many there are, their weights.
struct Filter {
  struct Span {
    int first = 0;
    int count = 0;
    const std::int32_t* weights = nullptr;
  };
  std::vector<Span> spans;
  std::vector<std::int32_t> weights;

  /// Output positions begin .. begin + count of an axis that goes from `in` to `out` samples.
  Filter(int in, int out, int begin, int count);
};

Filter::Filter(int in, int out, int begin, int count) {
  const double scale = static_cast<double>(in) / out;
  const double widening = std::max(scale, 1.0);
  const double support = widening;  // the triangle reaches one sample, times the widening
  const auto most = static_cast<std::size_t>(std::ceil(support)) * 2 + 1;
  weights.assign(most * static_cast<std::size_t>(count), 0);
  std::vector<double> real(most);
  for (int i = 0; i < count; ++i) {
    const double center = (begin + i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(std::floor(center - support + 0.5)));
    const int end = std::min(in, static_cast<int>(std::floor(center + support + 0.5)));
    double total = 0.0;
    for (int x = first; x < end; ++x) {
      const double distance = std::abs((x - center + 0.5) / widening);
      const double weight = std::max(0.0, 1.0 - distance);
      real[static_cast<std::size_t>(x - first)] = weight;
      total += weight;
    }
    std::int32_t* into = weights.data() + most * static_cast<std::size_t>(i);
    for (int x = 0; x < end - first; ++x) {
      const double share = real[static_cast<std::size_t>(x)] / total;
      into[x] = static_cast<std::int32_t>(std::floor(share * (1 << precision) + 0.5));
    }
    spans.push_back({first, end - first, into});
  }
}

/// One row through the filter along x.
template <int channels>
void filter_row(const std::uint8_t* in, const Filter& filter, std::uint8_t* out) {
  for (const Filter::Span& span : filter.spans) {
    std::int32_t sum[channels];
    std::fill_n(sum, channels, half);
    const std::uint8_t* pixel = in + std::ptrdiff_t{span.first} * channels;
    for (int x = 0; x < span.count; ++x, pixel += channels) {
      for (int c = 0; c < channels; ++c) sum[c] += pixel[c] * span.weights[x];
    }
    for (int c = 0; c < channels; ++c) *out++ = to_byte(sum[c]);
  }
}

/// One output row as the weighted sum of input rows.
void filter_column(const std::uint8_t* rows, std::size_t row_bytes, const Filter::Span& span,
                   int first_row, std::vector<std::int32_t>& sums, std::uint8_t* out) {
  std::fill(sums.begin(), sums.end(), half);
  for (int y = 0; y < span.count; ++y) {
    const std::uint8_t* row =
        rows + static_cast<std::size_t>(span.first - first_row + y) * row_bytes;
    const std::int32_t weight = span.weights[y];
    for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += row[i] * weight;
  }
  for (std::size_t i = 0; i < row_bytes; ++i) out[i] = to_byte(sums[i]);
}

}  // namespace

Image resize_part(const ImageView& source, int height, int width, const PixelRect& part) {
  TANDEM_CHECK(source.height > 0 && source.width > 0 && part.height > 0 && part.width > 0 &&
                   part.top >= 0 && part.left >= 0 && part.top + part.height <= height &&
                   part.left + part.width <= width,
               "cannot cut {}x{} at {},{} from an image of {}x{} resized to {}x{}", part.height,
               part.width, part.top, part.left, source.height, source.width, height, width);
  TANDEM_CHECK(source.channels == 1 || source.channels == 3, "cannot resize {} channels",
               source.channels);
  const Filter across(source.width, width, part.left, part.width);
  const Filter down(source.height, height, part.top, part.height);
  const int first_row = down.spans.front().first;
  const int end_row = down.spans.back().first + down.spans.back().count;
  const auto row_bytes =
      static_cast<std::size_t>(part.width) * static_cast<std::size_t>(source.channels);

  std::vector<std::uint8_t> rows(static_cast<std::size_t>(end_row - first_row) * row_bytes);
  for (int y = first_row; y < end_row; ++y) {
    std::uint8_t* out = rows.data() + static_cast<std::size_t>(y - first_row) * row_bytes;
    if (source.channels == 1) {
      filter_row<1>(source.row(y), across, out);
    } else {
      filter_row<3>(source.row(y), across, out);
    }
  }

  Image result{part.height, part.width, source.channels,
               std::vector<std::uint8_t>(static_cast<std::size_t>(part.height) * row_bytes)};
  std::vector<std::int32_t> sums(row_bytes);
  std::uint8_t* out = result.pixels.data();
  for (const Filter::Span& span : down.spans) {
    filter_column(rows.data(), row_bytes, span, first_row, sums, out);
    out += row_bytes;
  }
  return result;
}

}  // namespace tandem
