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
  bool can_add_to(std::size_t /*input*/, const AnyContext& /*context*/) const override {
    return true;
  }
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;
};

/// output = a + b, of one shape and dtype; any of them may be the same memory.
void add_forward(CpuContext& context, const Tensor& a, const Tensor& b, const Tensor& output);
void add_forward(CudaContext& context, const Tensor& a, const Tensor& b, const Tensor& output);
/// output = input, of one shape and dtype.
void copy_forward(CpuContext& context, const Tensor& input, const Tensor& output);
void copy_forward(CudaContext& context, const Tensor& input, const Tensor& output);

}  // namespace tandem
