#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// y = max(x, 0), any shape.
class Relu : public Layer {
 public:
  static LayerPtr from_config(const ConfigTable& table);
  std::string_view kind() const override { return "relu"; }
  Shape output_shape(std::span<const Shape> inputs) const override { return inputs[0]; }
  BackwardNeeds backward_needs() const override { return {.inputs = false, .output = true}; }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;
};

/// Kernels over `count` elements; `output_gradient` and `input_gradient` may be the same.
void relu_forward(CpuContext& context, std::int64_t count, const float* input, float* output);
void relu_backward(CpuContext& context, std::int64_t count, const float* output,
                   const float* output_gradient, float* input_gradient);

}  // namespace tandem
