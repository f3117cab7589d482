#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// y = x where x > 0, slope x elsewhere; any shape. Keys: `slope` (0.01), above 0 and below 1.
class LeakyRelu : public Layer {
 public:
  explicit LeakyRelu(float slope) : slope_(slope) {}
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "leaky_relu"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  /// The output tells the sign of the input, since the slope is above 0: the input's memory can be
  /// given away.
  BackwardNeeds backward_needs() const override { return {.inputs = false, .output = true}; }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

 private:
  float slope_;
};

/// Kernels over `count` elements; `output_gradient` and `input_gradient` may be the same.
void leaky_relu_forward(CpuContext& context, std::int64_t count, float slope, const float* input,
                        float* output);
void leaky_relu_backward(CpuContext& context, std::int64_t count, float slope, const float* output,
                         const float* output_gradient, float* input_gradient);

}  // namespace tandem
