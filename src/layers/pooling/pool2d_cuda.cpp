#include "layers/pooling/pool2d_cuda.h"

namespace tandem {

std::unique_ptr<LayerKernel> make_pool2d_kernel(CudaContext& context, const PoolGeometry& geometry,
                                                const KernelRequest& request) {
  if (geometry.kind == PoolKind::max) return make_max_pool_kernel(context, geometry, request);
  const bool whole = geometry.padding == 0 && geometry.rows == geometry.input[1] &&
                     geometry.columns == geometry.input[2];
  return whole ? make_global_average_pool_kernel(context, geometry)
               : make_average_pool_kernel(context, geometry);
}

}  // namespace tandem
