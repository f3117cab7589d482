#include "layers/relu.h"

namespace tandem {
namespace {

template <typename Context>
class ReluKernel : public LayerKernel {
 public:
  explicit ReluKernel(Context& context) : context_(&context) {}
  void forward(const ForwardArgs& args) override {
    relu_forward(*context_, args.output.elements(), args.inputs[0].data<float>(),
                 args.output.data<float>());
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    relu_backward(*context_, args.output.elements(), args.output.data<float>(),
                  args.output_gradient.data<float>(), args.input_gradients[0].data<float>());
  }

 private:
  Context* context_;
};

}  // namespace

LayerPtr Relu::from_config(const ConfigTable& /*table*/) { return std::make_shared<Relu>(); }

std::unique_ptr<LayerKernel> Relu::prepare(AnyContext& context,
                                           const KernelRequest& /*request*/) const {
  return std::visit(
      [](auto& device) -> std::unique_ptr<LayerKernel> {
        return std::make_unique<ReluKernel<std::remove_reference_t<decltype(device)>>>(device);
      },
      context);
}

}  // namespace tandem
