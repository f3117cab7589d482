#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "optim/block_sum.cuh"
#include "optim/gradient_norm_kernels.h"
#include "optim/step_control_kernels.h"

namespace tandem {
namespace {

constexpr int threads = 512;

__global__ void decide(StepRules rules, const float* loss, StepControl* control) {
  decide_step(rules, *loss, 0.0, *control);
}

__global__ void __launch_bounds__(threads) sum_and_decide(UpdatePreparation preparation) {
  const auto count = static_cast<int>(preparation.blocks.size());
  const double* const sums = preparation.block_sums.data();
  double own = 0.0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) own += sums[i];
  const double sum = block_sum<threads>(own);
  if (threadIdx.x == 0) {
    decide_step(preparation.rules, *preparation.loss, sum, *preparation.control);
  }
}

}  // namespace

void prepare_update(CudaContext& context, const UpdatePreparation& preparation) {
  if (preparation.rules.measures()) {
    square_sums(context, preparation.blocks, preparation.gradients, preparation.block_sums);
    sum_and_decide<<<1, threads, 0, context.stream()>>>(preparation);
  } else {
    decide<<<1, 1, 0, context.stream()>>>(preparation.rules, preparation.loss, preparation.control);
  }
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
