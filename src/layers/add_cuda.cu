#include "device/cuda_context.h"
#include "layers/add.h"
#include "tensor/elementwise_cuda.cuh"

namespace tandem {
namespace {

struct Sum {
  __device__ float operator()(const float* addends) const { return addends[0] + addends[1]; }
};

struct Same {
  __device__ float operator()(const float* x) const { return x[0]; }
};

}  // namespace

void add_forward(CudaContext& context, const Tensor& a, const Tensor& b, const Tensor& output) {
  map_elements<2>(context.stream(), {&a, &b}, output, Sum());
}

void copy_forward(CudaContext& context, const Tensor& input, const Tensor& output) {
  map_elements<1>(context.stream(), {&input}, output, Same());
}

}  // namespace tandem
