#include "device/cuda_check.h"
#include "layers/depthwise_conv_cuda.h"
#include "layers/depthwise_strips_cuda.cuh"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {
namespace {

/// What is known when compiling. A step reads one row of dy and Stride rows of x; each row of x
/// meets the `live` rows of dy that its window reaches, which stay in registers. The strips are
/// dy's.
template <typename T, int Kernel, int Stride>
struct WeightsShape {
  static constexpr int padding = Kernel / 2;
  static constexpr int width = 4;
  static constexpr int span = width * Stride + Kernel - Stride;
  static constexpr int live = (Kernel - 1) / Stride + 1;
  static constexpr int threads = BlockOf<T, Kernel>::threads;
  static constexpr int resident_blocks = BlockOf<T, Kernel>::resident_blocks;
};

struct WeightSums {
  int batch;
  int rows, columns;          ///< of x
  int out_rows, out_columns;  ///< of dy
  int channels;
};

/// Adds a row of x times the rows of dy that it meets; that of the step lies in slot `phase`.
template <typename T, int Kernel, int Stride>
__device__ __forceinline__ void add_products(
    float2 (&sums)[Kernel * Kernel],
    const float2 (&gradients)[(Kernel - 1) / Stride + 1][WeightsShape<T, Kernel, Stride>::width],
    int phase, int part, const float2 (&line)[WeightsShape<T, Kernel, Stride>::span]) {
  using Is = WeightsShape<T, Kernel, Stride>;
#pragma unroll
  for (int below = 0; below < Is::live; ++below) {
    const int tap_row = Kernel - Stride + part - below * Stride;
    if (tap_row < 0) continue;
#pragma unroll
    for (int i = 0; i < Is::width; ++i) {
#pragma unroll
      for (int tap = 0; tap < Kernel; ++tap) {
        multiply_add(sums[tap_row * Kernel + tap], line[i * Stride + tap],
                     gradients[(phase + below) % Is::live][i]);
      }
    }
  }
}

template <typename T, int Kernel, int Stride>
__device__ __forceinline__ void add_strip(const WeightSums& sizes, const StripItem& item,
                                          int channel, const T* __restrict__ x,
                                          const T* __restrict__ dy,
                                          float2 (&sums)[Kernel * Kernel]) {
  using Is = WeightsShape<T, Kernel, Stride>;
  const int channels = sizes.channels;
  const int column = item.column * Stride - Is::padding;
  const unsigned columns = columns_mask<Is::span>(column, sizes.columns);
  const unsigned out_columns = columns_mask<Is::width>(item.column, sizes.out_columns);
  const int begin = max(0, item.first * Stride - Is::padding);
  const int end = min(sizes.rows, (item.last - 1) * Stride - Is::padding + Kernel);

  // The first steps begin above the strip, where dy counts as zero: those rows are of another item.
  int out_row = item.first - (Is::live - 1);
  int row = out_row * Stride - Is::padding + Kernel - Stride;
  const int pitch = sizes.columns * channels;
  const T* from = x + (std::int64_t{item.image} * sizes.rows + row) * pitch +
                  std::int64_t{column} * channels + channel;
  const int out_pitch = sizes.out_columns * channels;
  const T* gradient = dy + (std::int64_t{item.image} * sizes.out_rows + item.first) * out_pitch +
                      std::int64_t{item.column} * channels + channel;

  Pair<T> read[Is::span];
  load_line<T>(read, from, channels, row >= begin && row < end ? columns : 0);
  Pair<T> gradient_read[Is::width];
  load_line<T>(gradient_read, gradient, channels, out_columns);
  float2 gradients[Is::live][Is::width];
#pragma unroll
  for (int i = 0; i < Is::live; ++i) clear(gradients[i]);

  while (true) {
#pragma unroll
    for (int phase = 0; phase < Is::live; ++phase) {
      // Row out_row + live - 1 of dy, the lowest that this step's rows of x reach.
      widen<T>(gradients[(phase + Is::live - 1) % Is::live], gradient_read);
      gradient += out_pitch;
      load_line<T>(gradient_read, gradient, channels,
                   out_row + Is::live < item.last ? out_columns : 0);
#pragma unroll
      for (int part = 0; part < Stride; ++part) {
        float2 line[Is::span];
        widen<T>(line, read);
        const bool inside = row >= begin && row < end;
        ++row;
        from += pitch;
        load_line<T>(read, from, channels, row >= begin && row < end ? columns : 0);
        if (inside) add_products<T, Kernel, Stride>(sums, gradients, phase, part, line);
      }
      if (++out_row == item.last) return;
    }
  }
}

/// Adds the block's sums over threadIdx.y and writes them as dw's part of this tile.
template <int Kernel, int MostThreads>
__device__ __forceinline__ void write_sums(const StripPlan& plan, int channels,
                                           const float2 (&sums)[Kernel * Kernel], float* partial) {
  __shared__ float shared[MostThreads * 2 * Kernel];
  const int pair = static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.y);
  const int size = plan.pairs * 2 * Kernel;
  const int tile_channel = own_channel(plan) - 2 * pair;
#pragma unroll
  for (int row = 0; row < Kernel; ++row) {
    float* own = shared + lane * size + pair * 2 * Kernel;
#pragma unroll
    for (int tap = 0; tap < Kernel; ++tap) {
      own[tap] = sums[row * Kernel + tap].x;
      own[Kernel + tap] = sums[row * Kernel + tap].y;
    }
    __syncthreads();
    for (int i = lane * plan.pairs + pair; i < size; i += plan.pairs * plan.lanes) {
      float sum = shared[i];
      for (int other = 1; other < plan.lanes; ++other) sum += shared[other * size + i];
      const int channel = tile_channel + i / Kernel;
      if (channel < channels) {
        partial[channel * Kernel * Kernel + row * Kernel + i % Kernel] = sum;
      }
    }
    __syncthreads();
  }
}

template <typename T, int Kernel, int Stride>
__global__ void __launch_bounds__(WeightsShape<T, Kernel, Stride>::threads,
                                  WeightsShape<T, Kernel, Stride>::resident_blocks)
    sum_strips(WeightSums sizes, StripPlan plan, const T* __restrict__ x, const T* __restrict__ dy,
               float* __restrict__ partials) {
  using Is = WeightsShape<T, Kernel, Stride>;
  constexpr int taps = Kernel * Kernel;
  float2 sums[taps];
  clear(sums);
  const int channel = own_channel(plan);
  if (channel < sizes.channels) {
    for (int index = first_item(plan); index < plan.items; index += item_step(plan)) {
      const StripItem item = strip_item(plan, index, Is::width, sizes.out_rows);
      add_strip<T, Kernel, Stride>(sizes, item, channel, x, dy, sums);
    }
  }
  const std::int64_t block = static_cast<int>(blockIdx.x) / plan.tiles;
  write_sums<Kernel, Is::threads>(plan, sizes.channels, sums,
                                  partials + block * sizes.channels * taps);
}

template <typename T, int Kernel, int Stride>
StripPlan plan_for(const Problem& problem) {
  using Is = WeightsShape<T, Kernel, Stride>;
  return plan_strips({.columns = Is::width,
                      .threads = Is::threads,
                      .resident_blocks = Is::resident_blocks,
                      .one_wave = true},
                     problem.batch, problem.out_rows, problem.out_columns, problem.channels,
                     problem.multiprocessors);
}

template <typename T, int Kernel, int Stride>
void launch(CUstream_st* stream, const Problem& problem, const void* x, const void* dy,
            float* partials, float* dw) {
  const StripPlan plan = plan_for<T, Kernel, Stride>(problem);
  const WeightSums sizes{.batch = problem.batch,
                         .rows = problem.rows,
                         .columns = problem.columns,
                         .out_rows = problem.out_rows,
                         .out_columns = problem.out_columns,
                         .channels = problem.channels};
  const dim3 block(static_cast<unsigned>(plan.pairs), static_cast<unsigned>(plan.lanes));
  const auto blocks = static_cast<unsigned>(plan.blocks * plan.tiles);
  sum_strips<T, Kernel, Stride><<<blocks, block, 0, stream>>>(sizes, plan, static_cast<const T*>(x),
                                                              static_cast<const T*>(dy),
                                                              plan.blocks == 1 ? dw : partials);
  TANDEM_CUDA_CHECK_LAUNCH();
  if (plan.blocks == 1) return;
  sum_partials(stream, plan.blocks, problem.channels * Kernel * Kernel, partials, dw);
}

/// Calls `use` with an element of the problem's type, its kernel and its stride.
template <typename Use>
void with_problem(const Problem& problem, Use&& use) {
  with_element_type(problem.dtype, [&](auto element) {
    with_kernel(problem.kernel, [&](auto kernel) {
      if (problem.stride == 1) {
        use(element, kernel, Constant<1>{});
      } else {
        use(element, kernel, Constant<2>{});
      }
    });
  });
}

}  // namespace

void backward_weights(CUstream_st* stream, const Problem& problem, const void* x, const void* dy,
                      float* partials, float* dw) {
  with_problem(problem, [&](auto element, auto kernel, auto stride) {
    launch<decltype(element), decltype(kernel)::value, decltype(stride)::value>(stream, problem, x,
                                                                                dy, partials, dw);
  });
}

std::size_t partial_bytes(const Problem& problem) {
  std::size_t bytes = 0;
  with_problem(problem, [&](auto element, auto kernel, auto stride) {
    constexpr int size = decltype(kernel)::value;
    const StripPlan plan = plan_for<decltype(element), size, decltype(stride)::value>(problem);
    bytes = sizeof(float) * static_cast<std::size_t>(plan.blocks) *
            static_cast<std::size_t>(problem.channels) * size * size;
  });
  return bytes;
}

}  // namespace tandem::cuda_depthwise
