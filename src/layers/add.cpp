#include "layers/add.h"

namespace tandem {
namespace {

template <typename Context>
class AddKernel : public LayerKernel {
 public:
  explicit AddKernel(Context& context) : context_(&context) {}
  void forward(const ForwardArgs& args) override {
    add_forward(*context_, args.output.elements(), args.inputs[0].data<float>(),
                args.inputs[1].data<float>(), args.output.data<float>());
  }
  void backward(const BackwardArgs& args) override {
    for (const Tensor& gradient : args.input_gradients) {
      if (!gradient.defined()) continue;
      copy_forward(*context_, gradient.elements(), args.output_gradient.data<float>(),
                   gradient.data<float>());
    }
  }

 private:
  Context* context_;
};

}  // namespace

LayerPtr Add::from_config(const ConfigTable& /*table*/) { return std::make_shared<Add>(); }

Shape Add::output_shape(std::span<const Shape> inputs) const {
  if (inputs[0] != inputs[1]) {
    input_error("cannot add {} and {}", inputs[0].text(), inputs[1].text());
  }
  return inputs[0];
}

std::unique_ptr<LayerKernel> Add::prepare(AnyContext& context,
                                          const KernelRequest& /*request*/) const {
  return std::visit(
      [](auto& device) -> std::unique_ptr<LayerKernel> {
        return std::make_unique<AddKernel<std::remove_reference_t<decltype(device)>>>(device);
      },
      context);
}

}  // namespace tandem
