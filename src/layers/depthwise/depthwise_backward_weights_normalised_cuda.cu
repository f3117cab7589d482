#include "layers/depthwise/depthwise_backward_weights_cuda.cuh"

namespace tandem::cuda_depthwise {

void backward_weights_normalised(CUstream_st* stream, const Problem& problem, const void* x,
                                 const InputNorm& norm, const void* dy, float* partials,
                                 float* dw) {
  with_deferred_activation(norm.activation, [&](auto activation) {
    sum_through<decltype(activation)::value>(stream, problem, x, norm, dy, partials, dw);
  });
}

}  // namespace tandem::cuda_depthwise
