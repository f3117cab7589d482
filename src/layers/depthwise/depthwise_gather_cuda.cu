#include "layers/depthwise/depthwise_gather_cuda.cuh"

namespace tandem::cuda_depthwise {

void gather(CUstream_st* stream, const Gather& sizes, const void* source, const void* weight,
            void* target) {
  gather_through<Activation::none>(stream, sizes, {}, source, weight, target);
}

void forward(CUstream_st* stream, const Problem& problem, const void* x, const InputNorm& norm,
             const void* weight, void* y) {
  const Gather sizes{.batch = problem.batch,
                     .source_rows = problem.rows,
                     .source_columns = problem.columns,
                     .rows = problem.out_rows,
                     .columns = problem.out_columns,
                     .channels = problem.channels,
                     .kernel = problem.kernel,
                     .stride = problem.stride,
                     .flipped = false,
                     .dtype = problem.dtype,
                     .multiprocessors = problem.multiprocessors};
  if (norm.activation == Activation::none) {
    gather(stream, sizes, x, weight, y);
  } else {
    gather_normalised(stream, sizes, x, norm, weight, y);
  }
}

}  // namespace tandem::cuda_depthwise
