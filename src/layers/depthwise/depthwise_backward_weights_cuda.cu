#include "layers/depthwise/depthwise_backward_weights_cuda.cuh"

namespace tandem::cuda_depthwise {

void backward_weights(CUstream_st* stream, const Problem& problem, const void* x,
                      const InputNorm& norm, const void* dy, float* partials, float* dw) {
  if (norm.activation == Activation::none) {
    sum_through<Activation::none>(stream, problem, x, norm, dy, partials, dw);
  } else {
    backward_weights_normalised(stream, problem, x, norm, dy, partials, dw);
  }
}

std::size_t partial_bytes(const Problem& problem) {
  std::size_t bytes = 0;
  with_problem(problem, [&](auto element, auto kernel, auto stride) {
    constexpr int size = decltype(kernel)::value;
    const StripPlan plan = plan_for<decltype(element), size, decltype(stride)::value>(problem);
    bytes = sizeof(float) * static_cast<std::size_t>(plan.blocks) *
            static_cast<std::size_t>(problem.channels) * size * size;
  });
  return bytes;
}

}  // namespace tandem::cuda_depthwise
