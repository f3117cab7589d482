#include "device/cuda_context.h"
#include "layers/activation_cuda.cuh"
#include "tensor/elementwise_cuda.cuh"

namespace tandem {
namespace {

template <Activation A>
struct Forward {
  __device__ float operator()(const float* x) const { return activate<A>(x[0]); }
};

template <Activation A>
struct Backward {
  __device__ float operator()(const float* seen_and_gradient) const {
    return activation_gradient<A>(seen_and_gradient[0], seen_and_gradient[1]);
  }
};

}  // namespace

void activation_forward(CudaContext& context, Activation activation, const Tensor& input,
                        const Tensor& output) {
  with_activation(activation, [&](auto chosen) {
    map_elements<1>(context.stream(), {&input}, output, Forward<decltype(chosen)::value>());
  });
}

void activation_backward(CudaContext& context, Activation activation, const Tensor& seen,
                         const Tensor& output_gradient, const Tensor& input_gradient) {
  with_activation(activation, [&](auto chosen) {
    map_elements<2>(context.stream(), {&seen, &output_gradient}, input_gradient,
                    Backward<decltype(chosen)::value>());
  });
}

}  // namespace tandem
