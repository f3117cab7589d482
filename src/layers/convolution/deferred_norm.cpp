#include "layers/convolution/deferred_norm.h"

#include "layers/depthwise/depthwise_strips_cuda.h"
#include "layers/pooling/pool2d.h"

namespace tandem {
namespace {

/// Whether CudaBatchNorm does all of it in one kernel.
bool takes_one_kernel(const KernelRequest& request, const ResidentClusters& clusters) {
  if (!has_statistics_of_rank(request)) return false;
  const auto element_bytes = static_cast<int>(size_of(request.dtype()));
  return make_resident_tiles(batch_norm_shape(request), element_bytes, clusters).has_value();
}

NormReader reader_of_conv_bn(const ConvBnOptions& maker, const ConvBnOptions& reader,
                             std::size_t slot, std::int64_t channels) {
  if (slot == 1) {
    return reader.add && maker.activation == Activation::none ? NormReader::sum : NormReader::none;
  }
  const bool depthwise = reader.conv.groups == channels && reader.conv.out_channels == channels;
  return can_be_deferred(maker.activation) && depthwise &&
                 cuda_depthwise::has_strips(reader.conv.window, channels)
             ? NormReader::depthwise
             : NormReader::none;
}

/// How wide a convolution's window is that reads a SiLU; else 0.
std::int64_t window_of_silu(const ConvBnOptions& maker, const Layer& reader) {
  const auto* conv_bn = dynamic_cast<const ConvBn*>(&reader);
  const bool is = maker.activation == Activation::silu && conv_bn != nullptr;
  return is ? conv_bn->options().conv.window.kernel : 0;
}

/// Of maxima.
bool takes_window(const Window& window, std::int64_t channels) {
  constexpr std::int64_t pack = 8;
  return window.kernel == 3 && window.stride == 2 && window.padding <= 1 && channels % pack == 0;
}

}  // namespace

NormReader norm_reader(const ConvBnOptions& maker, const Layer& reader, std::size_t slot,
                       std::int64_t channels) {
  if (maker.add || maker.join) return NormReader::none;
  if (const auto* conv_bn = dynamic_cast<const ConvBn*>(&reader)) {
    return reader_of_conv_bn(maker, conv_bn->options(), slot, channels);
  }
  const auto* pool = dynamic_cast<const Pool2d*>(&reader);
  return pool != nullptr && pool->pool() == PoolKind::max && maker.activation == Activation::relu &&
                 takes_window(pool->window(), channels)
             ? NormReader::max_pool
             : NormReader::none;
}

bool normalise_alike(const KernelRequest& maker, const KernelRequest& reader) {
  return has_statistics_of_rank(maker) == has_statistics_of_rank(reader) &&
         batch_norm_shape(maker).groups == batch_norm_shape(reader).groups;
}

bool gains_by_deferring(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const Layer& reader, const ResidentClusters& clusters) {
  if (!maker_request.training) return true;
  if (window_of_silu(maker, reader) == 5) return false;
  return !takes_one_kernel(maker_request, clusters);
}

bool saves_memory_alone(const ConvBnOptions& maker, const KernelRequest& maker_request,
                        const Layer& reader) {
  return maker_request.training && window_of_silu(maker, reader) == 3;
}

bool gains_by_deferring(const CpuContext& /*context*/, const ConvBnOptions& /*maker*/,
                        const KernelRequest& /*maker_request*/, const Layer& /*reader*/,
                        std::size_t /*slot*/) {
  return false;
}

DeferredNorm deferred_norm(const ConvBnOptions& maker, const KernelRequest& maker_request,
                           std::size_t slot) {
  return {.activation = maker.activation,
          .groups = batch_norm_shape(maker_request).groups,
          .input = slot};
}

}  // namespace tandem
