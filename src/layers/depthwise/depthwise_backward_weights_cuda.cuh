#pragma once

// The kernels of weight gradients, as templates: those of an x that is read as it is stored and
// those that normalise it are compiled apart.

#include "device/cuda_check.h"
#include "layers/depthwise/depthwise_conv_cuda.h"
#include "layers/depthwise/depthwise_strips_cuda.cuh"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {

/// What is known when compiling. A step reads one row of dy and Stride rows of x; each row of x
/// meets the `live` rows of dy that its window reaches, which stay in registers. The strips are
/// dy's.
template <typename T, int Kernel, int Stride>
struct WeightsShape {
  static constexpr int padding = Kernel / 2;
  static constexpr int width = 4;
  static constexpr int span = width * Stride + Kernel - Stride;
  static constexpr int live = (Kernel - 1) / Stride + 1;
  /// Rows of x and of dy that are read before they are needed; they divide live * Stride and live,
  /// so that registers need not be moved.
  static constexpr bool far = Kernel == 3 && sizeof(T) == 2;
  static constexpr int ahead = far ? (Stride == 1 ? 3 : 2) : 1;
  static constexpr int gradients_ahead = far ? live : 1;
  static constexpr int blocks = Kernel == 3 ? 4 : 3;  ///< that a multiprocessor has registers for
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

template <typename T, int Kernel, int Stride, Activation A>
__device__ __forceinline__ void add_strip(const WeightSums& sizes, const StripItem& item,
                                          int channel, const PairNorm& norm,
                                          const T* __restrict__ x, const T* __restrict__ dy,
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

  Pair<T> read[Is::ahead][Is::span];
#pragma unroll
  for (int i = 0; i < Is::ahead; ++i) {
    const bool inside = row + i >= begin && row + i < end;
    load_line<T>(read[i], from + std::int64_t{i} * pitch, channels, inside ? columns : 0);
  }
  Pair<T> gradients_read[Is::gradients_ahead][Is::width];
#pragma unroll
  for (int i = 0; i < Is::gradients_ahead; ++i) {
    load_line<T>(gradients_read[i], gradient + std::int64_t{i} * out_pitch, channels,
                 item.first + i < item.last ? out_columns : 0);
  }
  float2 gradients[Is::live][Is::width];
#pragma unroll
  for (int i = 0; i < Is::live; ++i) clear(gradients[i]);

  while (true) {
#pragma unroll
    for (int phase = 0; phase < Is::live; ++phase) {
      // Row out_row + live - 1 of dy, the lowest that this step's rows of x reach.
      const int newest = phase % Is::gradients_ahead;
      widen<T>(gradients[(phase + Is::live - 1) % Is::live], gradients_read[newest]);
      const int next_gradient = out_row + Is::live - 1 + Is::gradients_ahead;
      load_line<T>(gradients_read[newest], gradient + std::int64_t{Is::gradients_ahead} * out_pitch,
                   channels, next_gradient < item.last ? out_columns : 0);
      gradient += out_pitch;
#pragma unroll
      for (int part = 0; part < Stride; ++part) {
        const int slot = (phase * Stride + part) % Is::ahead;
        float2 line[Is::span];
        normalise<T, A>(line, read[slot], norm, columns);
        const int next = row + Is::ahead;
        load_line<T>(read[slot], from + std::int64_t{Is::ahead} * pitch, channels,
                     next >= begin && next < end ? columns : 0);
        if (row >= begin && row < end) {
          add_products<T, Kernel, Stride>(sums, gradients, phase, part, line);
        }
        ++row;
        from += pitch;
      }
      if (++out_row == item.last) return;
    }
  }
}

/// Adds the block's sums over threadIdx.y and writes them as dw's part of this tile.
template <int Kernel>
__device__ __forceinline__ void write_sums(const StripPlan& plan, int channels,
                                           const float2 (&sums)[Kernel * Kernel], float* partial) {
  __shared__ float shared[block_threads * 2 * Kernel];
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

template <typename T, int Kernel, int Stride, Activation A>
__global__ void __launch_bounds__(block_threads, WeightsShape<T, Kernel, Stride>::blocks)
    sum_strips(WeightSums sizes, StripPlan plan, InputNorm norm, const T* __restrict__ x,
               const T* __restrict__ dy, float* __restrict__ partials) {
  using Is = WeightsShape<T, Kernel, Stride>;
  constexpr int taps = Kernel * Kernel;
  float2 sums[taps];
  clear(sums);
  const int channel = own_channel(plan);
  if (channel < sizes.channels) {
    for (int index = first_item(plan); index < plan.items; index += item_step(plan)) {
      const StripItem item = strip_item(plan, index, Is::width, sizes.out_rows);
      add_strip<T, Kernel, Stride, A>(sizes, item, channel, pair_norm<A>(norm, item.image, channel),
                                      x, dy, sums);
    }
  }
  const std::int64_t block = static_cast<int>(blockIdx.x) / plan.tiles;
  write_sums<Kernel>(plan, sizes.channels, sums, partials + block * sizes.channels * taps);
}

template <typename T, int Kernel, int Stride>
StripPlan plan_for(const Problem& problem) {
  using Is = WeightsShape<T, Kernel, Stride>;
  return plan_strips({.columns = Is::width, .resident_blocks = Is::blocks, .one_wave = true},
                     problem.batch, problem.out_rows, problem.out_columns, problem.channels,
                     problem.multiprocessors);
}

template <typename T, int Kernel, int Stride, Activation A>
void launch_sums(CUstream_st* stream, const Problem& problem, const void* x, const InputNorm& norm,
                 const void* dy, float* partials, float* dw) {
  const StripPlan plan = plan_for<T, Kernel, Stride>(problem);
  const WeightSums sizes{.batch = problem.batch,
                         .rows = problem.rows,
                         .columns = problem.columns,
                         .out_rows = problem.out_rows,
                         .out_columns = problem.out_columns,
                         .channels = problem.channels};
  const dim3 block(static_cast<unsigned>(plan.pairs), static_cast<unsigned>(plan.lanes));
  const auto blocks = static_cast<unsigned>(plan.blocks * plan.tiles);
  sum_strips<T, Kernel, Stride, A>
      <<<blocks, block, 0, stream>>>(sizes, plan, norm, static_cast<const T*>(x),
                                     static_cast<const T*>(dy), plan.blocks == 1 ? dw : partials);
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

/// backward_weights() of an x that is normalised as it is read.
void backward_weights_normalised(CUstream_st* stream, const Problem& problem, const void* x,
                                 const InputNorm& norm, const void* dy, float* partials, float* dw);

/// Launches the kernel of the problem.
template <Activation A>
void sum_through(CUstream_st* stream, const Problem& problem, const void* x, const InputNorm& norm,
                 const void* dy, float* partials, float* dw) {
  with_problem(problem, [&](auto element, auto kernel, auto stride) {
    launch_sums<decltype(element), decltype(kernel)::value, decltype(stride)::value, A>(
        stream, problem, x, norm, dy, partials, dw);
  });
}

}  // namespace tandem::cuda_depthwise
