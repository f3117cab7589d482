#include "layers/convolution/depthwise_tiles.h"

#include <algorithm>

namespace tandem::depthwise {
namespace {

/// Eight channels in a register, and as they lie in memory. GCC's and clang's vector extension: a
/// tile is an array of them that stays in registers, which no loop over floats gets reliably.
using Eight = float __attribute__((vector_size(32)));
using EightInMemory = float __attribute__((vector_size(32), aligned(4), may_alias));

template <typename V>
struct InMemory {
  using Type = EightInMemory;
};
template <>
struct InMemory<float> {
  using Type = float;
};

template <typename V>
const typename InMemory<V>::Type& at(const float* place) {
  return *reinterpret_cast<const typename InMemory<V>::Type*>(place);
}
template <typename V>
typename InMemory<V>::Type& at(float* place) {
  return *reinterpret_cast<typename InMemory<V>::Type*>(place);
}

template <typename V>
constexpr std::int64_t lanes = static_cast<std::int64_t>(sizeof(V) / sizeof(float));

/// J pixels from `first`, U vectors of channels from `c`.
template <typename V, int U, int J>
inline void tile(const PixelRun& run, const TapList& taps, std::int64_t first, std::int64_t c) {
  V sum[J][U];
  float* target = run.target + first * run.target_step + c;
  for (int j = 0; j < J; ++j) {
    for (int u = 0; u < U; ++u) {
      V start = {};
      if (run.bias != nullptr) start += at<V>(run.bias + c + u * lanes<V>);
      if (run.add) start += at<V>(target + j * run.target_step + u * lanes<V>);
      sum[j][u] = start;
    }
  }
  const float* source = run.source + first * run.source_step + c;
  for (std::size_t t = 0; t < taps.count; ++t) {
    const float* w = run.weights + taps.weight[t] + c;
    const float* x = source + taps.source[t];
    for (int u = 0; u < U; ++u) {
      const V weight = at<V>(w + u * lanes<V>);
      for (int j = 0; j < J; ++j) {
        sum[j][u] += at<V>(x + j * run.source_step + u * lanes<V>) * weight;
      }
    }
  }
  for (int j = 0; j < J; ++j) {
    for (int u = 0; u < U; ++u) at<V>(target + j * run.target_step + u * lanes<V>) = sum[j][u];
  }
}

/// All channels of J pixels. The last vectors overlap those before them, which writes the same
/// values twice; sums that add to what is there cannot do so and go channel by channel.
template <int J>
void pixels(const PixelRun& run, const TapList& taps, std::int64_t first) {
  constexpr std::int64_t eight = lanes<Eight>;
  std::int64_t c = 0;
  for (; c + 2 * eight <= run.channels; c += 2 * eight) tile<Eight, 2, J>(run, taps, first, c);
  for (; c + eight <= run.channels; c += eight) tile<Eight, 1, J>(run, taps, first, c);
  if (c < run.channels && run.channels >= eight && !run.add) {
    tile<Eight, 1, J>(run, taps, first, run.channels - eight);
    return;
  }
  for (; c < run.channels; ++c) tile<float, 1, J>(run, taps, first, c);
}

}  // namespace

void gather_run(const PixelRun& run, const TapList& taps) {
  std::int64_t first = 0;
  for (; first + 4 <= run.count; first += 4) pixels<4>(run, taps, first);
  for (; first < run.count; ++first) pixels<1>(run, taps, first);
}

namespace {

/// The pixels whose column `s` of the window lies within the input: [first, last).
struct ColumnRange {
  std::int64_t first;
  std::int64_t last;
};

ColumnRange columns_of(const WeightGradient& g, std::int64_t s) {
  const std::int64_t shift = s * g.window.dilation - g.window.padding;
  const std::int64_t stride = g.window.stride;
  const std::int64_t first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t last =
      shift >= g.input_columns ? 0 : (g.input_columns - 1 - shift) / stride + 1;
  return {std::min(first, g.columns), std::clamp(last, std::min(first, g.columns), g.columns)};
}

/// Adds one output row's part to row `r` of the filter: sum[s] += dy[j] x[j stride + s dilation -
/// padding], for U vectors of channels from `c`.
template <typename V, int U, int S>
inline void add_row(const WeightGradient& g, const std::array<ColumnRange, 7>& ranges,
                    const float* dy, const float* x, V (&sum)[S][U]) {
  std::int64_t inner_first = 0;
  std::int64_t inner_last = g.columns;
  for (int s = 0; s < S; ++s) {
    inner_first = std::max(inner_first, ranges[static_cast<std::size_t>(s)].first);
    inner_last = std::min(inner_last, ranges[static_cast<std::size_t>(s)].last);
  }
  const std::int64_t step = g.window.stride * g.channels;
  const std::int64_t tap_step = g.window.dilation * g.channels;
  const float* start = x - g.window.padding * g.channels;
  const auto border = [&](std::int64_t j) {
    for (int s = 0; s < S; ++s) {
      const ColumnRange& range = ranges[static_cast<std::size_t>(s)];
      if (j < range.first || j >= range.last) continue;
      for (int u = 0; u < U; ++u) {
        sum[s][u] += at<V>(dy + j * g.channels + u * lanes<V>) *
                     at<V>(start + j * step + s * tap_step + u * lanes<V>);
      }
    }
  };
  std::int64_t j = 0;
  for (; j < std::min(inner_first, g.columns); ++j) border(j);
  for (; j < inner_last; ++j) {
    for (int u = 0; u < U; ++u) {
      const V d = at<V>(dy + j * g.channels + u * lanes<V>);
      for (int s = 0; s < S; ++s) {
        sum[s][u] += d * at<V>(start + j * step + s * tap_step + u * lanes<V>);
      }
    }
  }
  for (; j < g.columns; ++j) border(j);
}

/// Output rows whose pixels and windows stay in a core's cache while each row of the filter passes
/// over them.
constexpr std::int64_t band_pixels = 512;

/// U vectors of channels from `c`, all images in order; `partial` is (R, S, U vectors).
template <typename V, int U, int S>
void sum_block(const WeightGradient& g, const std::array<ColumnRange, 7>& ranges, std::int64_t c,
               float* partial) {
  constexpr std::int64_t width = U * lanes<V>;
  std::fill_n(partial, S * S * width, 0.0F);
  const std::int64_t band = std::max<std::int64_t>(1, band_pixels / g.columns);
  const std::int64_t bands = (g.rows + band - 1) / band;
  for (std::int64_t part = 0; part < g.batch * bands; ++part) {
    const std::int64_t n = part / bands;
    const std::int64_t begin = part % bands * band;
    const std::int64_t end = std::min(begin + band, g.rows);
    const float* dy = g.output_gradient + n * g.rows * g.columns * g.channels + c;
    const float* x = g.input + n * g.input_rows * g.input_columns * g.channels + c;
    for (int r = 0; r < S; ++r) {
      V sum[S][U] = {};
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i * g.window.stride + r * g.window.dilation - g.window.padding;
        if (row < 0 || row >= g.input_rows) continue;
        add_row<V, U, S>(g, ranges, dy + i * g.columns * g.channels,
                         x + row * g.input_columns * g.channels, sum);
      }
      for (int s = 0; s < S; ++s) {
        for (int u = 0; u < U; ++u)
          at<V>(partial + (r * S + s) * width + u * lanes<V>) += sum[s][u];
      }
    }
  }
}

/// Channels [c, c + width) into the result, those before `done` left out: another block has them.
void write_block(const WeightGradient& g, std::int64_t c, std::int64_t width, std::int64_t done,
                 const float* partial) {
  const std::int64_t area = g.window.kernel * g.window.kernel;
  for (std::int64_t k = std::max(c, done); k < c + width; ++k) {
    for (std::int64_t p = 0; p < area; ++p) {
      g.weight_gradient[k * area + p] = partial[p * width + k - c];
    }
  }
}

template <typename V, int U, int S>
void sum_channels(CpuContext& context, const WeightGradient& g) {
  constexpr std::int64_t width = U * lanes<V>;
  std::array<ColumnRange, 7> ranges{};
  for (std::int64_t s = 0; s < S; ++s) ranges[static_cast<std::size_t>(s)] = columns_of(g, s);
  const std::int64_t blocks = (g.channels + width - 1) / width;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t c = std::min(block * width, g.channels - width);
    float* partial = g.partial + block * width * S * S;
    sum_block<V, U, S>(g, ranges, c, partial);
    write_block(g, c, width, block * width, partial);
  }
}

template <int S>
void sum_kernel(CpuContext& context, const WeightGradient& g) {
  if (g.channels >= 2 * lanes<Eight> && S <= 5) return sum_channels<Eight, 2, S>(context, g);
  if (g.channels >= lanes<Eight>) return sum_channels<Eight, 1, S>(context, g);
  sum_channels<float, 1, S>(context, g);
}

void sum_bias(CpuContext& context, const WeightGradient& g) {
  constexpr std::int64_t width = 16;
  const std::int64_t blocks = (g.channels + width - 1) / width;
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first = block * width;
    const std::int64_t count = std::min(width, g.channels - first);
    std::array<double, width> sums{};
    for (std::int64_t row = 0; row < g.batch * g.rows * g.columns; ++row) {
      const float* dy = g.output_gradient + row * g.channels + first;
      for (std::int64_t c = 0; c < count; ++c) {
        sums[static_cast<std::size_t>(c)] += static_cast<double>(dy[c]);
      }
    }
    for (std::int64_t c = 0; c < count; ++c) {
      g.bias_gradient[first + c] = static_cast<float>(sums[static_cast<std::size_t>(c)]);
    }
  }
}

}  // namespace

void weight_gradient(CpuContext& context, const WeightGradient& sums) {
  constexpr std::array kernels{&sum_kernel<1>, &sum_kernel<2>, &sum_kernel<3>, &sum_kernel<4>,
                               &sum_kernel<5>, &sum_kernel<6>, &sum_kernel<7>};
  kernels[static_cast<std::size_t>(sums.window.kernel - 1)](context, sums);
  if (sums.bias_gradient != nullptr) sum_bias(context, sums);
}

}  // namespace tandem::depthwise
