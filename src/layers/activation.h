#pragma once

#include <type_traits>

#include "base/config_table.h"
#include "base/error.h"
#include "layers/layer.h"

namespace tandem {

/// A function of one element.
enum class Activation : std::uint8_t {
  none,     ///< x
  relu,     ///< max(x, 0)
  relu6,    ///< min(max(x, 0), 6) (Krizhevsky 2010; Sandler et al. 2018)
  silu,     ///< x / (1 + exp(-x)), also called swish (Ramachandran et al. 2017)
  sigmoid,  ///< 1 / (1 + exp(-x))
};

/// "relu6"; the kind of the layer that computes it.
std::string_view name_of(Activation activation);

/// Whether its derivative is found from x; otherwise it follows from the result.
constexpr bool derivative_needs_input(Activation activation) {
  return activation == Activation::silu;
}

/// Whether a result behind it can be joined with another tensor by the kernel that makes it
/// (ShuffleJoin): those of the networks that join.
constexpr bool fuses_with_join(Activation activation) {
  return activation == Activation::none || activation == Activation::relu;
}

/// Whether depthwise convolutions can compute it, behind a normalisation, from what they load
/// (layers/convolution/deferred_norm.h): those of the networks that have such layers.
constexpr bool can_be_deferred(Activation activation) {
  return activation == Activation::relu || activation == Activation::relu6 ||
         activation == Activation::silu;
}

/// Whether the derivative is one or zero.
constexpr bool passes_or_stops(Activation activation) {
  return activation == Activation::relu || activation == Activation::relu6;
}

/// Calls `use(std::integral_constant<Activation, A>())` for A = activation: the choice is made
/// once, outside the loops.
template <typename Use>
void with_activation(Activation activation, Use&& use) {
  switch (activation) {
    case Activation::none:
      return use(std::integral_constant<Activation, Activation::none>());
    case Activation::relu:
      return use(std::integral_constant<Activation, Activation::relu>());
    case Activation::relu6:
      return use(std::integral_constant<Activation, Activation::relu6>());
    case Activation::silu:
      return use(std::integral_constant<Activation, Activation::silu>());
    case Activation::sigmoid:
      return use(std::integral_constant<Activation, Activation::sigmoid>());
  }
  throw Error("an activation of unknown kind");
}

/// Reads `activation` ("none"): what is fused behind a normalisation, one of none, relu, relu6 and
/// silu.
Activation read_fused_activation(const ConfigTable& table);

/// An activation as a layer of its own, any shape: kinds `relu`, `relu6`, `silu` and `sigmoid`.
class ActivationLayer : public Layer {
 public:
  explicit ActivationLayer(Activation activation) : activation_(activation) {}
  template <Activation A>
  static LayerPtr from_config(const ConfigTable& /*table*/) {
    return std::make_shared<ActivationLayer>(A);
  }

  std::string_view kind() const override { return name_of(activation_); }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  BackwardNeeds backward_needs() const override {
    const bool input = derivative_needs_input(activation_);
    return {.inputs = input, .output = !input};
  }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  Activation activation() const { return activation_; }

 private:
  Activation activation_;
};

/// Kernels over tensors of one shape and dtype. `seen` is the input where derivative_needs_input(),
/// else the output; `output_gradient` and `input_gradient` may be the same.
void activation_forward(CpuContext& context, Activation activation, const Tensor& input,
                        const Tensor& output);
void activation_forward(CudaContext& context, Activation activation, const Tensor& input,
                        const Tensor& output);
void activation_backward(CpuContext& context, Activation activation, const Tensor& seen,
                         const Tensor& output_gradient, const Tensor& input_gradient);
void activation_backward(CudaContext& context, Activation activation, const Tensor& seen,
                         const Tensor& output_gradient, const Tensor& input_gradient);

}  // namespace tandem
