#include "device/cuda_check.h"
#include "layers/depthwise/depthwise_conv_cuda.h"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {
namespace {

constexpr int lanes = 32;  ///< a block's threads along the partial sums, and along what is summed

__global__ void __launch_bounds__(lanes* lanes)
    add_partials(int count, int size, const float* __restrict__ partials,
                 float* __restrict__ sums) {
  __shared__ float shared[lanes][lanes];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const int at = static_cast<int>(blockIdx.x) * lanes + x;
  float sum = 0.0F;
  if (at < size) {
#pragma unroll 4
    for (int i = y; i < count; i += lanes) sum += partials[std::int64_t{i} * size + at];
  }
  shared[y][x] = sum;
  for (int half = lanes / 2; half > 0; half /= 2) {
    __syncthreads();
    if (y < half) shared[y][x] += shared[y + half][x];
  }
  if (y == 0 && at < size) sums[at] = shared[0][x];
}

}  // namespace

void sum_partials(CUstream_st* stream, int count, int size, const float* partials, float* sums) {
  add_partials<<<blocks_for(size, lanes), dim3(lanes, lanes), 0, stream>>>(count, size, partials,
                                                                           sums);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem::cuda_depthwise
