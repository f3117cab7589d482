#include "layers/activation_cpu.h"

namespace tandem {

void activation_forward(CpuContext& context, Activation activation, std::int64_t count,
                        const float* input, float* output) {
  with_activation(activation, [&](auto chosen) {
    constexpr Activation kind = decltype(chosen)::value;
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
    for (std::int64_t i = 0; i < count; ++i) output[i] = activate<kind>(input[i]);
  });
}

void activation_backward(CpuContext& context, Activation activation, std::int64_t count,
                         const float* seen, const float* output_gradient, float* input_gradient) {
  with_activation(activation, [&](auto chosen) {
    constexpr Activation kind = decltype(chosen)::value;
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
    for (std::int64_t i = 0; i < count; ++i) {
      input_gradient[i] = activation_gradient<kind>(seen[i], output_gradient[i]);
    }
  });
}

}  // namespace tandem
