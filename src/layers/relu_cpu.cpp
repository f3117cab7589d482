#include "layers/relu.h"

namespace tandem {

void relu_forward(CpuContext& context, std::int64_t count, const float* input, float* output) {
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) output[i] = input[i] < 0.0F ? 0.0F : input[i];
}

void relu_backward(CpuContext& context, std::int64_t count, const float* output,
                   const float* output_gradient, float* input_gradient) {
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    input_gradient[i] = output[i] > 0.0F ? output_gradient[i] : 0.0F;
  }
}

}  // namespace tandem
