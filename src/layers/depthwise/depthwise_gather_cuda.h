#pragma once

#include "layers/depthwise/depthwise_conv_cuda.h"

namespace tandem::cuda_depthwise {

/// What one gather reads and writes: forward convolutions, and the data gradients of stride 1,
/// which gather from dy with the taps in the other order.
struct Gather {
  int batch;
  int source_rows, source_columns;
  int rows, columns;
  int channels;
  int kernel, stride;
  bool flipped;
  DType dtype;
  int multiprocessors;
};
void gather(CUstream_st* stream, const Gather& sizes, const void* source, const void* weight,
            void* target);
/// The same from a source that is normalised as it is read.
void gather_normalised(CUstream_st* stream, const Gather& sizes, const void* source,
                       const InputNorm& norm, const void* weight, void* target);

}  // namespace tandem::cuda_depthwise
