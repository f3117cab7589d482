#include "device/cuda_check.h"
#include "layers/depthwise/depthwise_conv_cuda.h"
#include "layers/depthwise/depthwise_gather_cuda.h"
#include "layers/depthwise/depthwise_strips_cuda.cuh"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {
namespace {

/// Data gradients of stride 2, as gathers from dy. Row 2m + e of dx (e: 0 or 1) meets row m + d of
/// dy at row e + padding - 2d of the window; columns likewise. So the four kinds of pixels have
/// taps of their own, known when compiling, and a thread makes whole 2x2 squares of dx: strips are
/// counted in pixels of dy, of which dx has two by two each (or one, where its extent is odd).
template <typename T, int Kernel>
struct SpreadShape {
  static constexpr int padding = Kernel / 2;
  static constexpr int before = padding / 2;       ///< least d is -before
  static constexpr int after = (padding + 1) / 2;  ///< greatest d
  static constexpr int width = 4;
  static constexpr int span = width + before + after;
  static constexpr int live = before + after + 1;  ///< rows of dy in use
  static constexpr int ahead = Kernel == 3 ? live : 1;
};

struct Spread {
  int batch;
  int rows, columns;          ///< of dy
  int out_rows, out_columns;  ///< of dx
  int channels;
};

/// One row of a strip of dx; `lines` are rows of dy, that of d = -before in slot `first`.
template <typename T, int Kernel>
__device__ __forceinline__ void spread_row(
    const float2 (&lines)[SpreadShape<T, Kernel>::live][SpreadShape<T, Kernel>::span], int first,
    int odd_row, const float2 (&weights)[Kernel * Kernel], int channels, unsigned stored, T* to) {
  using Is = SpreadShape<T, Kernel>;
  float2 sums[2 * Is::width];
  clear(sums);
#pragma unroll
  for (int i = 0; i < 2 * Is::width; ++i) {
#pragma unroll
    for (int d = 0; d < Is::live; ++d) {
      const int tap_row = odd_row + Is::padding - 2 * (d - Is::before);
      if (tap_row < 0 || tap_row >= Kernel) continue;
#pragma unroll
      for (int e = 0; e < Is::live; ++e) {
        const int tap = i % 2 + Is::padding - 2 * (e - Is::before);
        if (tap < 0 || tap >= Kernel) continue;
        multiply_add(sums[i], lines[(first + d) % Is::live][i / 2 + e],
                     weights[tap_row * Kernel + tap]);
      }
    }
  }
  const int step = forget(channels);
  // Two loops, or the compiler computes each sum behind a branch of its own.
  if (stored == (1U << 2 * Is::width) - 1) {
#pragma unroll
    for (int i = 0; i < 2 * Is::width; ++i) store_pair(sums[i], moved(to, i, step));
    return;
  }
#pragma unroll
  for (int i = 0; i < 2 * Is::width; ++i) {
    if ((stored >> i & 1U) != 0) store_pair(sums[i], moved(to, i, step));
  }
}

template <typename T, int Kernel>
__device__ __forceinline__ void spread_strip(const Spread& sizes, const StripItem& item,
                                             int channel, const float2 (&weights)[Kernel * Kernel],
                                             const T* __restrict__ dy, T* __restrict__ dx) {
  using Is = SpreadShape<T, Kernel>;
  const int channels = sizes.channels;
  const int column = item.column - Is::before;
  const unsigned columns = columns_mask<Is::span>(column, sizes.columns);
  const unsigned stored = columns_mask<2 * Is::width>(2 * item.column, sizes.out_columns);
  const int begin = max(0, item.first - Is::before);
  const int end = min(sizes.rows, item.last + Is::after);

  // The first steps only fetch rows of dy.
  int at = item.first - (Is::live - 1);
  int row = at + Is::after;
  const int pitch = sizes.columns * channels;
  const T* from = dy + (std::int64_t{item.image} * sizes.rows + row) * pitch +
                  std::int64_t{column} * channels + channel;
  const int out_pitch = sizes.out_columns * channels;
  T* to = dx + (std::int64_t{item.image} * sizes.out_rows + 2 * at) * out_pitch +
          std::int64_t{2 * item.column} * channels + channel;

  Pair<T> read[Is::ahead][Is::span];
#pragma unroll
  for (int i = 0; i < Is::ahead; ++i) {
    const bool inside = row + i >= begin && row + i < end;
    load_line<T>(read[i], from + std::int64_t{i} * pitch, channels, inside ? columns : 0);
  }
  float2 lines[Is::live][Is::span];
#pragma unroll
  for (int i = 0; i < Is::live; ++i) clear(lines[i]);

  while (true) {
#pragma unroll
    for (int phase = 0; phase < Is::live; ++phase) {
      widen<T>(lines[phase], read[phase % Is::ahead]);
      const int next = row + Is::ahead;
      load_line<T>(read[phase % Is::ahead], from + std::int64_t{Is::ahead} * pitch, channels,
                   next >= begin && next < end ? columns : 0);
      if (at >= item.first) {
        constexpr int live = Is::live;
        spread_row<T, Kernel>(lines, (phase + 1) % live, 0, weights, channels, stored, to);
        if (2 * at + 1 < sizes.out_rows) {
          spread_row<T, Kernel>(lines, (phase + 1) % live, 1, weights, channels, stored,
                                to + out_pitch);
        }
      }
      ++row;
      from += pitch;
      to += 2 * static_cast<std::int64_t>(out_pitch);
      if (++at == item.last) return;
    }
  }
}

template <typename T, int Kernel>
__global__ void __launch_bounds__(block_threads, resident_blocks<T, Kernel>)
    spread_strips(Spread sizes, StripPlan plan, const T* __restrict__ dy,
                  const T* __restrict__ weight, T* __restrict__ dx) {
  using Is = SpreadShape<T, Kernel>;
  const int channel = own_channel(plan);
  if (channel >= sizes.channels) return;
  float2 weights[Kernel * Kernel];
  load_weights<T, Kernel * Kernel>(weight, channel, false, weights);
  for (int index = first_item(plan); index < plan.items; index += item_step(plan)) {
    const StripItem item = strip_item(plan, index, Is::width, sizes.rows);
    spread_strip<T, Kernel>(sizes, item, channel, weights, dy, dx);
  }
}

template <typename T, int Kernel>
void launch(CUstream_st* stream, const Problem& problem, const void* dy, const void* weight,
            void* dx) {
  using Is = SpreadShape<T, Kernel>;
  const Spread sizes{.batch = problem.batch,
                     .rows = problem.out_rows,
                     .columns = problem.out_columns,
                     .out_rows = problem.rows,
                     .out_columns = problem.columns,
                     .channels = problem.channels};
  const StripPlan plan = plan_strips(
      {.columns = Is::width, .resident_blocks = resident_blocks<T, Kernel>, .one_wave = false},
      sizes.batch, sizes.rows, sizes.columns, sizes.channels, problem.multiprocessors);
  const dim3 block(static_cast<unsigned>(plan.pairs), static_cast<unsigned>(plan.lanes));
  const auto blocks = static_cast<unsigned>(plan.blocks * plan.tiles);
  spread_strips<T, Kernel><<<blocks, block, 0, stream>>>(
      sizes, plan, static_cast<const T*>(dy), static_cast<const T*>(weight), static_cast<T*>(dx));
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace

void backward_data(CUstream_st* stream, const Problem& problem, const void* dy, const void* weight,
                   void* dx) {
  if (problem.stride == 1) {
    gather(stream,
           {.batch = problem.batch,
            .source_rows = problem.out_rows,
            .source_columns = problem.out_columns,
            .rows = problem.rows,
            .columns = problem.columns,
            .channels = problem.channels,
            .kernel = problem.kernel,
            .stride = 1,
            .flipped = true,
            .dtype = problem.dtype,
            .multiprocessors = problem.multiprocessors},
           dy, weight, dx);
    return;
  }
  with_element_type(problem.dtype, [&](auto element) {
    using T = decltype(element);
    with_kernel(problem.kernel, [&](auto kernel) {
      launch<T, decltype(kernel)::value>(stream, problem, dy, weight, dx);
    });
  });
}

}  // namespace tandem::cuda_depthwise
