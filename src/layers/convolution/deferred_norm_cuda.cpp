#include "layers/convolution/deferred_norm.h"
#include "layers/normalisation/batch_norm_ways_cuda.h"

namespace tandem {

bool gains_by_deferring(const CudaContext& context, const ConvBnOptions& maker,
                        const KernelRequest& maker_request, const Layer& reader, std::size_t slot) {
  if (!gains_by_deferring(maker, maker_request, reader, batch_norm_clusters(context))) return false;
  const NormReader kind = norm_reader(maker, reader, slot, maker.conv.out_channels);
  if (kind != NormReader::sum || !has_statistics_of_rank(maker_request)) return true;
  // The reader's is of the same shape, and of the same statistics: normalise_alike().
  const BatchNormSetup readers{.shape = batch_norm_shape(maker_request),
                               .options = maker.norm,
                               .dtype = maker_request.dtype(),
                               .training = true};
  return batch_norm_ways(context, readers).front().forward == NormForward::two_kernels;
}

}  // namespace tandem
