#include "layers/batch_norm_kernels_cuda.h"
#include "layers/deferred_norm.h"

namespace tandem {

bool gains_by_deferring(const CudaContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const ConvBnOptions& reader) {
  return gains_by_deferring(maker, maker_request, reader, batch_norm_clusters(context));
}

}  // namespace tandem
