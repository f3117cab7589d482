#include <algorithm>

#include "device/cuda_check.h"
#include "layers/depthwise/depthwise_conv_cuda.h"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {
namespace {

constexpr int threads = 256;

/// A pixel of `columns` wide images and a channel, from an index over all of them.
struct Pixel {
  std::int64_t image;
  int row, column, channel;
};
__device__ __forceinline__ Pixel pixel_at(std::int64_t index, int rows, int columns, int channels) {
  const std::int64_t pixel = index / channels;
  const std::int64_t line = pixel / columns;
  return {line / rows, static_cast<int>(line % rows), static_cast<int>(pixel % columns),
          static_cast<int>(index % channels)};
}
__device__ __forceinline__ std::int64_t index_of(std::int64_t image, int row, int column,
                                                 int channel, int rows, int columns, int channels) {
  return ((image * rows + row) * columns + column) * channels + channel;
}

__device__ __forceinline__ bool inside(int at, int extent) { return at >= 0 && at < extent; }

template <typename T>
__global__ void __launch_bounds__(threads)
    forward_kernel(Problem p, std::int64_t count, const T* __restrict__ x,
                   const T* __restrict__ weight, T* __restrict__ y) {
  const std::int64_t index = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (index >= count) return;
  const Pixel at = pixel_at(index, p.out_rows, p.out_columns, p.channels);
  const T* taps = weight + std::int64_t{at.channel} * p.kernel * p.kernel;
  float sum = 0.0F;
  for (int r = 0; r < p.kernel; ++r) {
    const int row = at.row * p.stride - p.padding + r * p.dilation;
    if (!inside(row, p.rows)) continue;
    for (int s = 0; s < p.kernel; ++s) {
      const int column = at.column * p.stride - p.padding + s * p.dilation;
      if (!inside(column, p.columns)) continue;
      const T value = x[index_of(at.image, row, column, at.channel, p.rows, p.columns, p.channels)];
      sum = fmaf(to_float(value), to_float(taps[r * p.kernel + s]), sum);
    }
  }
  y[index] = from_float<T>(sum);
}

/// The row (column) of dy whose window has its `tap` at `at`, or -1.
__device__ __forceinline__ int reached_from(const Problem& p, int at, int tap, int extent) {
  const int distance = at + p.padding - tap * p.dilation;
  if (distance < 0 || distance % p.stride != 0) return -1;
  const int from = distance / p.stride;
  return from < extent ? from : -1;
}

template <typename T>
__global__ void __launch_bounds__(threads)
    backward_data_kernel(Problem p, std::int64_t count, const T* __restrict__ dy,
                         const T* __restrict__ weight, T* __restrict__ dx) {
  const std::int64_t index = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (index >= count) return;
  const Pixel at = pixel_at(index, p.rows, p.columns, p.channels);
  const T* taps = weight + std::int64_t{at.channel} * p.kernel * p.kernel;
  float sum = 0.0F;
  for (int r = 0; r < p.kernel; ++r) {
    const int row = reached_from(p, at.row, r, p.out_rows);
    if (row < 0) continue;
    for (int s = 0; s < p.kernel; ++s) {
      const int column = reached_from(p, at.column, s, p.out_columns);
      if (column < 0) continue;
      const T value =
          dy[index_of(at.image, row, column, at.channel, p.out_rows, p.out_columns, p.channels)];
      sum = fmaf(to_float(value), to_float(taps[r * p.kernel + s]), sum);
    }
  }
  dx[index] = from_float<T>(sum);
}

constexpr int tile = 32;  ///< channels of a block
constexpr int lanes = 8;  ///< pixels that it works on at once

/// blockIdx: x tiles of channels, y taps, z parts of the pixels.
template <typename T>
__global__ void __launch_bounds__(tile* lanes)
    backward_weights_kernel(Problem p, std::int64_t pixels, const T* __restrict__ x,
                            const T* __restrict__ dy, float* __restrict__ partials) {
  __shared__ float shared[lanes][tile];
  const int channel = static_cast<int>(blockIdx.x) * tile + static_cast<int>(threadIdx.x);
  const int tap = static_cast<int>(blockIdx.y);
  const int lane = static_cast<int>(threadIdx.y);
  float sum = 0.0F;
  if (channel < p.channels) {
    for (std::int64_t i = std::int64_t{blockIdx.z} * lanes + lane; i < pixels;
         i += std::int64_t{gridDim.z} * lanes) {
      const Pixel at = pixel_at(i * p.channels + channel, p.out_rows, p.out_columns, p.channels);
      const int row = at.row * p.stride - p.padding + tap / p.kernel * p.dilation;
      const int column = at.column * p.stride - p.padding + tap % p.kernel * p.dilation;
      if (!inside(row, p.rows) || !inside(column, p.columns)) continue;
      const T value = x[index_of(at.image, row, column, channel, p.rows, p.columns, p.channels)];
      sum = fmaf(to_float(value), to_float(dy[i * p.channels + channel]), sum);
    }
  }
  shared[lane][threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || channel >= p.channels) return;
  for (int other = 1; other < lanes; ++other) sum += shared[other][threadIdx.x];
  const int taps = p.kernel * p.kernel;
  partials[(std::int64_t{blockIdx.z} * p.channels + channel) * taps + tap] = sum;
}

std::int64_t out_pixels(const Problem& p) {
  return std::int64_t{p.batch} * p.out_rows * p.out_columns;
}

/// Parts of the pixels: enough blocks for the device, each with some pixels to add up.
int parts(const Problem& p) {
  const std::int64_t blocks = std::int64_t{blocks_for(p.channels, tile)} * p.kernel * p.kernel;
  const std::int64_t wanted = (std::int64_t{p.multiprocessors} * 8 + blocks - 1) / blocks;
  const std::int64_t most = (out_pixels(p) + 16 * lanes - 1) / (16 * lanes);
  return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, most), 1, 1024));
}

}  // namespace

void forward_any(CUstream_st* stream, const Problem& problem, const void* x, const void* weight,
                 void* y) {
  with_element_type(problem.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int64_t count = out_pixels(problem) * problem.channels;
    forward_kernel<<<blocks_for(count, threads), threads, 0, stream>>>(
        problem, count, static_cast<const T*>(x), static_cast<const T*>(weight),
        static_cast<T*>(y));
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

void backward_data_any(CUstream_st* stream, const Problem& problem, const void* dy,
                       const void* weight, void* dx) {
  with_element_type(problem.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int64_t count =
        std::int64_t{problem.batch} * problem.rows * problem.columns * problem.channels;
    backward_data_kernel<<<blocks_for(count, threads), threads, 0, stream>>>(
        problem, count, static_cast<const T*>(dy), static_cast<const T*>(weight),
        static_cast<T*>(dx));
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

void backward_weights_any(CUstream_st* stream, const Problem& problem, const void* x,
                          const void* dy, float* partials, float* dw) {
  const int count = parts(problem);
  const int taps = problem.kernel * problem.kernel;
  with_element_type(problem.dtype, [&](auto element) {
    using T = decltype(element);
    const dim3 grid(blocks_for(problem.channels, tile), static_cast<unsigned>(taps),
                    static_cast<unsigned>(count));
    backward_weights_kernel<<<grid, dim3(tile, lanes), 0, stream>>>(
        problem, out_pixels(problem), static_cast<const T*>(x), static_cast<const T*>(dy),
        count == 1 ? dw : partials);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  if (count > 1) sum_partials(stream, count, problem.channels * taps, partials, dw);
}

std::size_t partial_bytes_any(const Problem& problem) {
  return sizeof(float) * static_cast<std::size_t>(parts(problem)) *
         static_cast<std::size_t>(problem.channels) *
         static_cast<std::size_t>(problem.kernel * problem.kernel);
}

}  // namespace tandem::cuda_depthwise
