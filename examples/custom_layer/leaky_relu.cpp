#include "leaky_relu.h"

namespace tandem {
namespace {

/// One kernel for every device: the context picks the overload.
template <typename Context>
class LeakyReluKernel : public LayerKernel {
 public:
  LeakyReluKernel(Context& context, float slope) : context_(&context), slope_(slope) {}

  void forward(const ForwardArgs& args) override {
    leaky_relu_forward(*context_, args.output.elements(), slope_, args.inputs[0].data<float>(),
                       args.output.data<float>());
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;  // the first layer: nobody wants it
    leaky_relu_backward(*context_, args.output.elements(), slope_, args.output.data<float>(),
                        args.output_gradient.data<float>(), args.input_gradients[0].data<float>());
  }

 private:
  Context* context_;
  float slope_;
};

}  // namespace

LayerPtr LeakyRelu::from_config(const ConfigTable& table) {
  return std::make_shared<LeakyRelu>(
      static_cast<float>(table.get_real_or("slope", 0.01, 1e-6, 0.999)));
}

std::unique_ptr<LayerKernel> LeakyRelu::prepare(AnyContext& context,
                                                const KernelRequest& /*request*/) const {
  return std::visit(
      [this](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        return std::make_unique<LeakyReluKernel<Context>>(device, slope_);
      },
      context);
}

}  // namespace tandem
