#pragma once

#include <cuda_runtime.h>

namespace tandem {

/// The sum of `value` over a thread block of `threads` (whole warps), in a fixed order. Thread 0
/// has the result. Called once in a kernel.
template <int threads>
__device__ __forceinline__ double block_sum(double value) {
  static_assert(threads % 32 == 0 && threads <= 1024);
  constexpr int warps = threads / 32;
  __shared__ double of_warp[warps];
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    value += __shfl_down_sync(0xffffffffU, value, distance);
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  double sum = 0.0;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < warps; ++i) sum += of_warp[i];
  }
  return sum;
}

}  // namespace tandem
