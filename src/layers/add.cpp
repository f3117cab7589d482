#include "layers/add.h"

#include <array>

namespace tandem {
namespace {

template <typename Context>
class AddKernel : public LayerKernel {
 public:
  AddKernel(Context& context, const KernelRequest& request)
      : context_(&context), add_{request.adds_to(0), request.adds_to(1)} {}
  void forward(const ForwardArgs& args) override {
    add_forward(*context_, args.inputs[0], args.inputs[1], args.output);
  }
  void backward(const BackwardArgs& args) override {
    const Tensor& dy = args.output_gradient;
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor& dx = args.input_gradients[i];
      if (!dx.defined()) continue;
      if (add_[i]) {
        add_forward(*context_, dx, dy, dx);
      } else {
        copy_forward(*context_, dy, dx);
      }
    }
  }

 private:
  Context* context_;
  std::array<bool, 2> add_;
};

}  // namespace

LayerPtr Add::from_config(const ConfigTable& /*table*/) { return std::make_shared<Add>(); }

Shape Add::output_shape(std::span<const Shape> inputs) const {
  if (inputs[0] != inputs[1]) {
    input_error("cannot add {} and {}", inputs[0].text(), inputs[1].text());
  }
  return inputs[0];
}

std::unique_ptr<LayerKernel> Add::prepare(AnyContext& context, const KernelRequest& request) const {
  return std::visit(
      [&](auto& device) -> std::unique_ptr<LayerKernel> {
        return std::make_unique<AddKernel<std::remove_reference_t<decltype(device)>>>(device,
                                                                                      request);
      },
      context);
}

}  // namespace tandem
