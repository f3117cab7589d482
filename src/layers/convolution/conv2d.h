#pragma once

#include "base/config_table.h"
#include "layers/conv2d_options.h"
#include "layers/layer.h"

namespace tandem {

/// Reads `out`, `kernel`, `stride` (1), `padding` (0), `dilation` (1), `groups` (1), `bias`
/// (false), `init` ("kaiming", or "fan_in").
Conv2dOptions read_conv2d_options(const ConfigTable& table);

/// Output, parameters and work of a convolution, shared with the fused layers that contain one.
Shape conv2d_output_shape(const Conv2dOptions& options, const Shape& input);
/// weight (K, R, S, C/groups) and, where there is one, bias (K).
std::vector<ParameterSpec> conv2d_parameters(const Conv2dOptions& options, const Shape& input);
std::int64_t conv2d_multiply_adds(const Conv2dOptions& options, const Shape& input);
/// Whether a convolution's data gradient can be added to what is there. oneDNN's overwrite it.
bool conv2d_can_add(const AnyContext& context);

/// y[n, i, j, k] = b[k] + sum over r, s, c of x[n, i*stride + r*dilation - padding, j*..., c] *
/// w[k, r, s, c], per group of channels (cross-correlation, as everywhere in deep learning).
class Conv2d : public Layer {
 public:
  explicit Conv2d(const Conv2dOptions& options) : options_(options) {}
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "conv2d"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  bool can_add_to(std::size_t /*input*/, const AnyContext& context) const override {
    return conv2d_can_add(context);
  }
  std::string options_text() const override { return options_.window.text(); }
  std::int64_t multiply_adds(std::span<const Shape> inputs) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

  const Conv2dOptions& options() const { return options_; }

 private:
  Conv2dOptions options_;
};

}  // namespace tandem
