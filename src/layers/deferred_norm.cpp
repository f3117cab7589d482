#include "layers/deferred_norm.h"

#include "layers/depthwise_strips_cuda.h"

namespace tandem {
namespace {

/// Whether CudaBatchNorm does all of it in one kernel.
bool takes_one_kernel(const KernelRequest& request, const ResidentClusters& clusters) {
  if (!has_statistics_of_rank(request)) return false;
  const auto element_bytes = static_cast<int>(size_of(request.dtype()));
  return make_resident_tiles(batch_norm_shape(request), element_bytes, clusters).has_value();
}

}  // namespace

bool can_defer_norm(const ConvBnOptions& maker, const ConvBnOptions& reader,
                    std::int64_t channels) {
  const bool depthwise = reader.conv.groups == channels && reader.conv.out_channels == channels;
  return can_be_deferred(maker.activation) && !maker.add && !maker.join && depthwise &&
         cuda_depthwise::has_strips(reader.conv.window, channels);
}

bool gains_by_deferring(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const ConvBnOptions& reader, const ResidentClusters& clusters) {
  if (!maker_request.training) return true;
  if (maker.activation == Activation::silu && reader.conv.window.kernel == 5) return false;
  return !takes_one_kernel(maker_request, clusters);
}

bool gains_by_deferring(const CpuContext& /*context*/, const ConvBnOptions& /*maker*/,
                        const KernelRequest& /*maker_request*/, const ConvBnOptions& /*reader*/) {
  return false;
}

DeferredNorm deferred_norm(const ConvBnOptions& maker, const KernelRequest& maker_request) {
  return {.activation = maker.activation, .groups = batch_norm_shape(maker_request).groups};
}

}  // namespace tandem
