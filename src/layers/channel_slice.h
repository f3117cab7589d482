#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// Some of an image's channels: y[.., c] = x[.., first + c], c < count. Keys: `first` (0), `count`.
class ChannelSlice : public Layer {
 public:
  ChannelSlice(std::int64_t first, std::int64_t count) : first_(first), count_(count) {}
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "channel_slice"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool can_add_to(std::size_t /*input*/, const AnyContext& /*context*/) const override {
    return true;
  }
  /// Only the slice.
  LayerTraffic traffic(std::span<const Shape> inputs, DType dtype) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

 private:
  std::int64_t first_;
  std::int64_t count_;
};

/// Channels [first, first + count) of `rows` pixels of `channels`.
struct ChannelRange {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  std::int64_t first = 0;
  std::int64_t count = 0;
};
void channel_slice_forward(CpuContext& context, const ChannelRange& range, const Tensor& input,
                           const Tensor& output);
void channel_slice_forward(CudaContext& context, const ChannelRange& range, const Tensor& input,
                           const Tensor& output);
/// With `add` the other channels' gradients stay as they are, else they become zero.
void channel_slice_backward(CpuContext& context, const ChannelRange& range, bool add,
                            const Tensor& output_gradient, const Tensor& input_gradient);
void channel_slice_backward(CudaContext& context, const ChannelRange& range, bool add,
                            const Tensor& output_gradient, const Tensor& input_gradient);

}  // namespace tandem
