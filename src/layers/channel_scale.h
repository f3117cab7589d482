#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// y[n, i, j, c] = x[n, i, j, c] s[n, 0, 0, c]: a factor for each channel of each image, as in
/// squeeze and excitation (Hu et al. 2018, equation 4). Inputs: x (N, H, W, C), s (N, 1, 1, C).
class ChannelScale : public Layer {
 public:
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "channel_scale"; }
  std::size_t arity() const override { return 2; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  bool can_add_to(std::size_t /*input*/, const AnyContext& /*context*/) const override {
    return true;
  }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;
};

/// `pixels` rows and columns of each of `batch` images.
struct ChannelScaleShape {
  std::int64_t batch = 0;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;
};
void channel_scale_forward(CpuContext& context, const ChannelScaleShape& shape, const Tensor& input,
                           const Tensor& scale, const Tensor& output);
void channel_scale_forward(CudaContext& context, const ChannelScaleShape& shape,
                           const Tensor& input, const Tensor& scale, const Tensor& output);
/// Both gradients in one pass; either may be undefined. Each overwritten, or added to.
struct ChannelScaleBackward {
  Tensor input;
  Tensor scale;
  Tensor output_gradient;
  Tensor input_gradient;
  Tensor scale_gradient;
  bool add_to_input;
  bool add_to_scale;
};
void channel_scale_backward(CpuContext& context, const ChannelScaleShape& shape,
                            const ChannelScaleBackward& args);
void channel_scale_backward(CudaContext& context, const ChannelScaleShape& shape,
                            const ChannelScaleBackward& args);

}  // namespace tandem
