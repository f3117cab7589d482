#include "layers/activation_cpu.h"

namespace tandem {

void activation_forward(CpuContext& context, Activation activation, const Tensor& input,
                        const Tensor& output) {
  const std::int64_t count = output.elements();
  const auto* x = input.data<float>();
  auto* y = output.data<float>();
  with_activation(activation, [&](auto chosen) {
    constexpr Activation kind = decltype(chosen)::value;
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
    for (std::int64_t i = 0; i < count; ++i) y[i] = activate<kind>(x[i]);
  });
}

void activation_backward(CpuContext& context, Activation activation, const Tensor& seen,
                         const Tensor& output_gradient, const Tensor& input_gradient) {
  const std::int64_t count = seen.elements();
  const auto* s = seen.data<float>();
  const auto* dy = output_gradient.data<float>();
  auto* dx = input_gradient.data<float>();
  with_activation(activation, [&](auto chosen) {
    constexpr Activation kind = decltype(chosen)::value;
#pragma omp parallel for simd schedule(static) num_threads(context.threads())
    for (std::int64_t i = 0; i < count; ++i) {
      dx[i] = activation_gradient<kind>(s[i], dy[i]);
    }
  });
}

}  // namespace tandem
