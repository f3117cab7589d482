#pragma once

#include "layers/activation.h"
#include "layers/batch_norm.h"
#include "layers/conv2d.h"

namespace tandem {

struct ConvBnOptions {
  Conv2dOptions conv;  ///< without a bias: the normalisation would cancel it
  BatchNormOptions norm;
  bool add = false;  ///< a second input is added behind the normalisation
  Activation activation = Activation::none;
};

/// Convolution, batch normalisation and, where asked, a residual sum and an activation as one
/// layer: y = activation(batch_norm(conv(x)) + residual). Inputs: x, and with `add` the residual.
/// The fusion pass makes it out of the plain layers; parameters are the convolution's weight and
/// the normalisation's weight and bias. In evaluation the normalisation is folded into the
/// convolution's weights on a CPU, and is one pass over its output on a CUDA device.
class ConvBn : public Layer {
 public:
  explicit ConvBn(const ConvBnOptions& options);
  /// Whether a residual sum and this activation can be fused: backward finds the activation's
  /// derivative from the result or from the normalised value, never from their sum.
  static bool fuses_with_add(Activation activation) { return !derivative_needs_input(activation); }
  /// The keys of conv2d and batch_norm, `add` (false) and `activation` (none).
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "conv_bn"; }
  std::size_t arity() const override { return options_.add ? 2 : 1; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  std::vector<BufferSpec> buffers(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override {
    const Activation activation = options_.activation;
    return {.inputs = true,
            .output = activation != Activation::none && !derivative_needs_input(activation)};
  }
  /// The residual's gradient is overwritten.
  bool can_add_to(std::size_t input, const AnyContext& context) const override {
    return input == 0 && conv2d_can_add(context);
  }
  std::int64_t multiply_adds(std::span<const Shape> inputs) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  const ConvBnOptions& options() const { return options_; }

 private:
  ConvBnOptions options_;
};

}  // namespace tandem
