#include "layers/depthwise/depthwise_gather_cuda.cuh"

namespace tandem::cuda_depthwise {

void gather_normalised(CUstream_st* stream, const Gather& sizes, const void* source,
                       const InputNorm& norm, const void* weight, void* target) {
  with_deferred_activation(norm.activation, [&](auto activation) {
    gather_through<decltype(activation)::value>(stream, sizes, norm, source, weight, target);
  });
}

}  // namespace tandem::cuda_depthwise
