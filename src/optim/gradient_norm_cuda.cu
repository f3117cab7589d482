#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "optim/block_sum.cuh"
#include "optim/gradient_norm_kernels.h"
#include "optim/update_cuda.cuh"

namespace tandem {
namespace {

/// Squares are summed in double: of any floats they are finite, and the memory is slower still.
struct SquareSum {
  template <int width>
  using Values = Pack<float, width>;

  const float* values;
  double sum = 0.0;

  __device__ bool aligned() const { return is_aligned(values); }
  template <int width>
  __device__ Values<width> load(int at) const {
    return Values<width>::load(values + at);
  }
  template <int width>
  __device__ void update(int /*at*/, const Values<width>& loaded) {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      const double value = loaded.values[i];
      sum += value * value;
    }
  }
};

__global__ void __launch_bounds__(update_threads)
    sum_squares(const UpdateBlock* blocks, const float* values, double* sums) {
  const UpdateBlock block = blocks[blockIdx.x];
  SquareSum rule{.values = values + block.offset};
  update_block(rule, static_cast<int>(block.elements));
  const double sum = block_sum<update_threads>(rule.sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

void square_sums(CudaContext& context, std::span<const UpdateBlock> blocks, const float* values,
                 std::span<double> sums) {
  if (blocks.empty()) return;
  sum_squares<<<static_cast<unsigned>(blocks.size()), update_threads, 0, context.stream()>>>(
      blocks.data(), values, sums.data());
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
