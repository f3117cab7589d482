#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// y = a + b, two inputs of one shape.
class Add : public Layer {
 public:
  static LayerPtr from_config(const ConfigTable& table);
  std::string_view kind() const override { return "add"; }
  std::size_t arity() const override { return 2; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  bool adds_gradients() const override { return true; }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;
};

/// output = a + b over `count` elements; any of them may be the same memory.
void add_forward(CpuContext& context, std::int64_t count, const float* a, const float* b,
                 float* output);
/// output = input over `count` elements.
void copy_forward(CpuContext& context, std::int64_t count, const float* input, float* output);

}  // namespace tandem
