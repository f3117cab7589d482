#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// y = x W^T + b: (N, C) to (N, out). weight (out, C), bias (out), both uniform in 1/sqrt(C) as
/// torch.nn.Linear's. Keys: `out`, `bias` (true).
class Linear : public Layer {
 public:
  Linear(std::int64_t out, bool bias) : out_(out), bias_(bias) {}
  static LayerPtr from_config(const ConfigTable& table);

  std::string_view kind() const override { return "linear"; }
  Shape output_shape(std::span<const Shape> inputs) const override;
  std::vector<ParameterSpec> parameters(std::span<const Shape> inputs) const override;
  BackwardNeeds backward_needs() const override { return {.inputs = true, .output = false}; }
  std::int64_t multiply_adds(std::span<const Shape> inputs) const override;
  std::unique_ptr<LayerKernel> prepare(AnyContext& context,
                                       const KernelRequest& request) const override;

 private:
  std::int64_t out_;
  bool bias_;
};

std::unique_ptr<LayerKernel> make_linear_kernel(CpuContext& context, bool bias,
                                                const KernelRequest& request);

}  // namespace tandem
