#include "layers/channel_slice.h"

#include "layers/window.h"

namespace tandem {
namespace {

template <typename Context>
class ChannelSliceKernel : public LayerKernel {
 public:
  ChannelSliceKernel(Context& context, const ChannelRange& range, bool add)
      : context_(&context), range_(range), add_(add) {}
  void forward(const ForwardArgs& args) override {
    channel_slice_forward(*context_, range_, args.inputs[0], args.output);
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    channel_slice_backward(*context_, range_, add_, args.output_gradient, args.input_gradients[0]);
  }

 private:
  Context* context_;
  ChannelRange range_;
  bool add_;
};

}  // namespace

LayerPtr ChannelSlice::from_config(const ConfigTable& table) {
  constexpr std::int64_t most = 65536;
  const std::int64_t first = table.get_int_or("first", 0, 0, most);
  return std::make_shared<ChannelSlice>(first, table.get_int("count", 1, most));
}

Shape ChannelSlice::output_shape(std::span<const Shape> inputs) const {
  require_image(inputs[0]);
  if (first_ + count_ > inputs[0][3]) {
    input_error("channels {} to {} of an input of {}", first_, first_ + count_ - 1, inputs[0][3]);
  }
  return {inputs[0][0], inputs[0][1], inputs[0][2], count_};
}

LayerTraffic ChannelSlice::traffic(std::span<const Shape> inputs, DType /*dtype*/) const {
  return {.inputs = {output_shape(inputs).elements()}};
}

std::unique_ptr<LayerKernel> ChannelSlice::prepare(AnyContext& context,
                                                   const KernelRequest& request) const {
  const Shape& input = request.inputs[0];
  const ChannelRange range{.rows = input[0] * input[1] * input[2],
                           .channels = input[3],
                           .first = first_,
                           .count = count_};
  return std::visit(
      [&](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        return std::make_unique<ChannelSliceKernel<Context>>(device, range, request.adds_to(0));
      },
      context);
}

}  // namespace tandem
