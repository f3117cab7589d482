#pragma once

#include "layers/pooling/pool2d.h"

namespace tandem {

// The kinds of pooling on a CUDA device. All gather: an element of a result has one thread, so
// that two runs give the same bits.

/// Saves, in training, which element of its window each maximum is.
std::unique_ptr<LayerKernel> make_max_pool_kernel(CudaContext& context,
                                                  const PoolGeometry& geometry,
                                                  const KernelRequest& request);
std::unique_ptr<LayerKernel> make_average_pool_kernel(CudaContext& context,
                                                      const PoolGeometry& geometry);
/// One window without padding over the whole image.
std::unique_ptr<LayerKernel> make_global_average_pool_kernel(CudaContext& context,
                                                             const PoolGeometry& geometry);

}  // namespace tandem
