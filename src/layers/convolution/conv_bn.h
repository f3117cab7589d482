#pragma once

#include "layers/activation.h"
#include "layers/convolution/conv2d.h"
#include "layers/normalisation/batch_norm.h"

namespace tandem {

struct ConvBnOptions {
  Conv2dOptions conv;  ///< without a bias: the normalisation would cancel it
  BatchNormOptions norm;
  bool add = false;  ///< a second input is added behind the normalisation
  Activation activation = Activation::none;
  bool join = false;  ///< a second input's channels are laid between those of the result
};

/// Convolution, batch normalisation and, where asked, a residual sum and an activation as one
/// layer: y = activation(batch_norm(conv(x)) + residual). Or, with a join, what ShuffleJoin makes
/// of a second input a and that result b: y[.., 2c] = a[.., c], y[.., 2c + 1] = b[.., c], where a
/// has once or several times as many channels as b. Inputs: x, and with `add` the residual, with
/// `join` a. The fusion pass makes it out of the plain layers; parameters are the convolution's
/// weight and the normalisation's weight and bias. In evaluation the normalisation is folded into
/// the convolution's weights on a CPU, and is one pass over its output on a CUDA device.
class ConvBn : public Layer {
 public:
  explicit ConvBn(const ConvBnOptions& options);
  /// Whether a residual sum and this activation can be fused: backward finds the activation's
  /// derivative from the result or from the normalised value, never from their sum.
  static bool fuses_with_add(Activation activation) { return !derivative_needs_input(activation); }
  /// Whether a result of shape `own` and these channels of the other input can be joined.
  static bool joins(const Shape& other, const Shape& own);
  /// The keys of conv2d and batch_norm, `add` (false), `activation` (none) and `join` (false).
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "conv_bn"; }
  std::size_t arity() const override { return options_.add || options_.join ? 2 : 1; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  std::vector<BufferSpec> buffers(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override {
    const Activation activation = options_.activation;
    return {.inputs = true,
            .output = !options_.join && activation != Activation::none &&
                      !derivative_needs_input(activation),
            .first_input_alone = true};
  }
  /// The second input's gradient is overwritten.
  bool can_add_to(std::size_t input, const AnyContext& context) const override {
    return input == 0 && conv2d_can_add(context);
  }
  /// Without what is joined, which the weights' gradient does not read.
  std::int64_t split_elements(std::span<const Shape> inputs, const Shape& output) const override {
    return options_.join ? inputs[0].elements() + output.elements() / 2
                         : Layer::split_elements(inputs, output);
  }
  std::string options_text() const override;
  std::int64_t multiply_adds(std::span<const Shape> inputs) const override;
  /// With a join the product is half of the output, and of what is joined as much is taken.
  LayerTraffic traffic(std::span<const Shape> inputs, DType dtype) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  const ConvBnOptions& options() const { return options_; }

 private:
  ConvBnOptions options_;
};

/// Whether a kernel of such a layer that is prepared for training does what evaluation does, and
/// nothing backward for its convolution: where all of that is frozen, statistics too, and nothing
/// below is trained.
bool conv_bn_is_constant(const KernelRequest& request);

}  // namespace tandem
