#include "layers/shuffle_join.h"

#include "layers/window.h"

namespace tandem {
namespace {

template <typename Context>
class ShuffleJoinKernel : public LayerKernel {
 public:
  ShuffleJoinKernel(Context& context, const KernelRequest& request)
      : context_(&context),
        shape_{.rows = request.output[0] * request.output[1] * request.output[2],
               .channels_a = request.inputs[0][3],
               .channels_b = request.inputs[1][3]},
        add_{request.adds_to(0), request.adds_to(1)} {}
  void forward(const ForwardArgs& args) override {
    shuffle_join_forward(*context_, shape_, args.inputs[0], args.inputs[1], args.output);
  }
  void backward(const BackwardArgs& args) override {
    shuffle_join_backward(*context_, shape_,
                          {.output_gradient = args.output_gradient,
                           .gradients = {args.input_gradients[0], args.input_gradients[1]},
                           .add = add_});
  }

 private:
  Context* context_;
  ShuffleJoinShape shape_;
  std::array<bool, 2> add_;
};

}  // namespace

LayerPtr ShuffleJoin::from_config(const ConfigTable& /*table*/) {
  return std::make_shared<ShuffleJoin>();
}

Shape ShuffleJoin::output_shape(std::span<const Shape> inputs) const {
  const Shape& a = inputs[0];
  const Shape& b = inputs[1];
  require_image(a);
  require_image(b);
  if (a[0] != b[0] || a[1] != b[1] || a[2] != b[2] || a[3] < b[3]) {
    input_error(
        "cannot join {} and {}; the first needs as many rows and columns, and no fewer "
        "channels",
        a.text(), b.text());
  }
  return {b[0], b[1], b[2], 2 * b[3]};
}

LayerTraffic ShuffleJoin::traffic(std::span<const Shape> inputs, DType /*dtype*/) const {
  return {.inputs = {inputs[1].elements(), inputs[1].elements()}};
}

std::unique_ptr<LayerKernel> ShuffleJoin::prepare(AnyContext& context,
                                                  const KernelRequest& request) const {
  return std::visit(
      [&](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        return std::make_unique<ShuffleJoinKernel<Context>>(device, request);
      },
      context);
}

}  // namespace tandem
