#pragma once

// The kernels that gather, as templates: those of what is read as it is stored and those that
// normalise it are compiled apart.

#include "device/cuda_check.h"
#include "layers/depthwise/depthwise_gather_cuda.h"
#include "layers/depthwise/depthwise_strips_cuda.cuh"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {

/// What is known when compiling. A step reads Stride rows of the source and finishes one row of the
/// target, while the rows below it are begun.
template <typename T, int Kernel, int Stride>
struct GatherShape {
  static constexpr int padding = Kernel / 2;
  static constexpr int width = 4;                                ///< columns of a strip
  static constexpr int span = width * Stride + Kernel - Stride;  ///< columns that they gather from
  static constexpr int live = (Kernel - 1) / Stride + 1;         ///< rows of sums under way
  /// Rows that are read before they are needed; divides live * Stride, so that registers need not
  /// be moved.
  static constexpr int ahead = Kernel == 5 ? 1 : sizeof(T) == 2 ? (Stride == 1 ? 3 : 2) : 1;
};

template <typename T, int Kernel, int Stride>
__device__ __forceinline__ void add_row(float2 (&sums)[(Kernel - 1) / Stride + 1][4], int phase,
                                        int part,
                                        const float2 (&line)[4 * Stride + Kernel - Stride],
                                        const float2 (&weights)[Kernel * Kernel]) {
  using Is = GatherShape<T, Kernel, Stride>;
#pragma unroll
  for (int below = 0; below < Is::live; ++below) {
    const int tap_row = Kernel - Stride + part - below * Stride;
    if (tap_row < 0) continue;
#pragma unroll
    for (int tap = 0; tap < Kernel; ++tap) {
#pragma unroll
      for (int i = 0; i < Is::width; ++i) {
        multiply_add(sums[(phase + below) % Is::live][i], line[i * Stride + tap],
                     weights[tap_row * Kernel + tap]);
      }
    }
  }
}

template <typename T, int Kernel, int Stride, Activation A>
__device__ __forceinline__ void gather_strip(const Gather& sizes, const StripItem& item,
                                             int channel, const float2 (&weights)[Kernel * Kernel],
                                             const PairNorm& norm, const T* __restrict__ source,
                                             T* __restrict__ target) {
  using Is = GatherShape<T, Kernel, Stride>;
  const int channels = sizes.channels;
  const int column = item.column * Stride - Is::padding;
  const unsigned columns = columns_mask<Is::span>(column, sizes.source_columns);
  const unsigned stored = columns_mask<Is::width>(item.column, sizes.columns);
  const int begin = max(0, item.first * Stride - Is::padding);
  const int end = min(sizes.source_rows, (item.last - 1) * Stride - Is::padding + Kernel);

  // The first steps only begin rows: what they finish lies above the strip.
  int out_row = item.first - (Is::live - 1);
  int row = out_row * Stride - Is::padding + Kernel - Stride;
  const int pitch = sizes.source_columns * channels;
  const T* from = source + (std::int64_t{item.image} * sizes.source_rows + row) * pitch +
                  std::int64_t{column} * channels + channel;
  const int target_pitch = sizes.columns * channels;
  T* to = target + (std::int64_t{item.image} * sizes.rows + out_row) * target_pitch +
          std::int64_t{item.column} * channels + channel;

  Pair<T> read[Is::ahead][Is::span];
#pragma unroll
  for (int i = 0; i < Is::ahead; ++i) {
    const bool inside = row + i >= begin && row + i < end;
    load_line<T>(read[i], from + std::int64_t{i} * pitch, channels, inside ? columns : 0);
  }
  float2 sums[Is::live][Is::width];
#pragma unroll
  for (int i = 0; i < Is::live; ++i) clear(sums[i]);

  while (true) {
#pragma unroll
    for (int phase = 0; phase < Is::live; ++phase) {
#pragma unroll
      for (int part = 0; part < Stride; ++part) {
        const int slot = (phase * Stride + part) % Is::ahead;
        float2 line[Is::span];
        normalise<T, A>(line, read[slot], norm, columns);
        const int next = row + Is::ahead;
        load_line<T>(read[slot], from + std::int64_t{Is::ahead} * pitch, channels,
                     next >= begin && next < end ? columns : 0);
        if (row >= begin && row < end) {
          add_row<T, Kernel, Stride>(sums, phase, part, line, weights);
        }
        ++row;
        from += pitch;
      }
      if (out_row >= item.first) {
        const int step = forget(channels);
#pragma unroll
        for (int i = 0; i < Is::width; ++i) {
          if ((stored >> i & 1U) != 0) store_pair(sums[phase][i], moved(to, i, step));
        }
      }
      clear(sums[phase]);
      to += target_pitch;
      if (++out_row == item.last) return;
    }
  }
}

template <typename T, int Kernel, int Stride, Activation A>
__global__ void __launch_bounds__(block_threads, resident_blocks<T, Kernel, A>)
    gather_strips(Gather sizes, StripPlan plan, InputNorm norm, const T* __restrict__ source,
                  const T* __restrict__ weight, T* __restrict__ target) {
  using Is = GatherShape<T, Kernel, Stride>;
  const int channel = own_channel(plan);
  if (channel >= sizes.channels) return;
  float2 weights[Kernel * Kernel];
  load_weights<T, Kernel * Kernel>(weight, channel, sizes.flipped, weights);
  for (int index = first_item(plan); index < plan.items; index += item_step(plan)) {
    const StripItem item = strip_item(plan, index, Is::width, sizes.rows);
    gather_strip<T, Kernel, Stride, A>(sizes, item, channel, weights,
                                       pair_norm<A>(norm, item.image, channel), source, target);
  }
}

template <typename T, int Kernel, int Stride, Activation A>
void launch_gather(CUstream_st* stream, const Gather& sizes, const InputNorm& norm,
                   const void* source, const void* weight, void* target) {
  using Is = GatherShape<T, Kernel, Stride>;
  const StripPlan plan = plan_strips(
      {.columns = Is::width, .resident_blocks = resident_blocks<T, Kernel, A>, .one_wave = false},
      sizes.batch, sizes.rows, sizes.columns, sizes.channels, sizes.multiprocessors);
  const dim3 block(static_cast<unsigned>(plan.pairs), static_cast<unsigned>(plan.lanes));
  const auto blocks = static_cast<unsigned>(plan.blocks * plan.tiles);
  gather_strips<T, Kernel, Stride, A>
      <<<blocks, block, 0, stream>>>(sizes, plan, norm, static_cast<const T*>(source),
                                     static_cast<const T*>(weight), static_cast<T*>(target));
  TANDEM_CUDA_CHECK_LAUNCH();
}

/// Launches the kernel of the sizes' type, window and stride.
template <Activation A>
void gather_through(CUstream_st* stream, const Gather& sizes, const InputNorm& norm,
                    const void* source, const void* weight, void* target) {
  with_element_type(sizes.dtype, [&](auto element) {
    using T = decltype(element);
    with_kernel(sizes.kernel, [&](auto kernel) {
      constexpr int size = decltype(kernel)::value;
      if (sizes.stride == 1) {
        launch_gather<T, size, 1, A>(stream, sizes, norm, source, weight, target);
      } else {
        launch_gather<T, size, 2, A>(stream, sizes, norm, source, weight, target);
      }
    });
  });
}

}  // namespace tandem::cuda_depthwise
