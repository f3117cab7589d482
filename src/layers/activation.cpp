#include "layers/activation.h"

#include <array>

namespace tandem {
namespace {

const std::array<std::string, 5>& names() {
  static const std::array<std::string, 5> all{"none", "relu", "relu6", "silu", "sigmoid"};
  return all;
}

template <typename Context>
class ActivationKernel : public LayerKernel {
 public:
  ActivationKernel(Context& context, Activation activation)
      : context_(&context), activation_(activation) {}
  void forward(const ForwardArgs& args) override {
    activation_forward(*context_, activation_, args.inputs[0], args.output);
  }
  void backward(const BackwardArgs& args) override {
    if (!args.input_gradients[0].defined()) return;
    const Tensor& seen = derivative_needs_input(activation_) ? args.inputs[0] : args.output;
    activation_backward(*context_, activation_, seen, args.output_gradient,
                        args.input_gradients[0]);
  }

 private:
  Context* context_;
  Activation activation_;
};

}  // namespace

std::string_view name_of(Activation activation) {
  return names()[static_cast<std::size_t>(activation)];
}

Activation read_fused_activation(const ConfigTable& table) {
  constexpr std::size_t fused = 4;  // none to silu
  const std::string chosen =
      table.get_choice_or("activation", "none", std::span(names()).first(fused));
  std::size_t index = 0;
  while (names()[index] != chosen) ++index;
  return static_cast<Activation>(index);
}

std::unique_ptr<LayerKernel> ActivationLayer::prepare(AnyContext& context,
                                                      const KernelRequest& /*request*/) const {
  return std::visit(
      [this](auto& device) -> std::unique_ptr<LayerKernel> {
        using Context = std::remove_reference_t<decltype(device)>;
        return std::make_unique<ActivationKernel<Context>>(device, activation_);
      },
      context);
}

}  // namespace tandem
