#include "layers/channel_scale.h"

#include "layers/window.h"

namespace tandem {
namespace {

template <typename Context>
class ChannelScaleKernel : public LayerKernel {
 public:
  ChannelScaleKernel(Context& context, const KernelRequest& request)
      : context_(&context),
        shape_{.batch = request.output[0],
               .pixels = request.output[1] * request.output[2],
               .channels = request.output[3]},
        add_to_input_(request.adds_to(0)),
        add_to_scale_(request.adds_to(1)) {}
  void forward(const ForwardArgs& args) override {
    channel_scale_forward(*context_, shape_, args.inputs[0], args.inputs[1], args.output);
  }
  void backward(const BackwardArgs& args) override {
    channel_scale_backward(*context_, shape_,
                           {.input = args.inputs[0],
                            .scale = args.inputs[1],
                            .output_gradient = args.output_gradient,
                            .input_gradient = args.input_gradients[0],
                            .scale_gradient = args.input_gradients[1],
                            .add_to_input = add_to_input_,
                            .add_to_scale = add_to_scale_});
  }

 private:
  Context* context_;
  ChannelScaleShape shape_;
  bool add_to_input_;
  bool add_to_scale_;
};

}  // namespace

LayerPtr ChannelScale::from_config(const ConfigTable& /*table*/) {
  return std::make_shared<ChannelScale>();
}

Shape ChannelScale::output_shape(std::span<const Shape> inputs) const {
  const Shape& x = inputs[0];
  require_image(x);
  if (inputs[1] != Shape{x[0], 1, 1, x[3]}) {
    input_error("cannot scale the channels of {} by {}; needs a factor for each channel, {}x1x1x{}",
                x.text(), inputs[1].text(), x[0], x[3]);
  }
  return x;
}

std::unique_ptr<LayerKernel> ChannelScale::prepare(AnyContext& context,
                                                   const KernelRequest& request) const {
  return std::visit(
      [&](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        return std::make_unique<ChannelScaleKernel<Context>>(device, request);
      },
      context);
}

}  // namespace tandem
