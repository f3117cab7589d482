#include "leaky_relu.h"

namespace tandem {

void leaky_relu_forward(CpuContext& context, std::int64_t count, float slope, const float* input,
                        float* output) {
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    output[i] = input[i] > 0.0F ? input[i] : slope * input[i];
  }
}

void leaky_relu_backward(CpuContext& context, std::int64_t count, float slope, const float* output,
                         const float* output_gradient, float* input_gradient) {
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    input_gradient[i] = output[i] > 0.0F ? output_gradient[i] : slope * output_gradient[i];
  }
}

}  // namespace tandem
