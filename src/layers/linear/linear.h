#pragma once

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// How a linear layer starts.
enum class LinearInit : std::uint8_t {
  fan_in,   ///< weight and bias uniform in 1/sqrt(C), as torch.nn.Linear's
  normal,   ///< weight normal with deviation 0.01, bias zero: torchvision's MobileNetV2
  fan_out,  ///< weight uniform in 1/sqrt(out), bias zero: torchvision's EfficientNet
};
/// Reads `init` ("fan_in", "normal" or "fan_out").
LinearInit read_linear_init(const ConfigTable& table);

/// y = x W^T + b: (N, C) to (N, out). weight (out, C), bias (out). Keys: `out`, `bias` (true),
/// `init` ("fan_in").
class Linear : public Layer {
 public:
  Linear(std::int64_t out, bool bias, LinearInit init = LinearInit::fan_in)
      : out_(out), bias_(bias), init_(init) {}
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
  LinearInit init_;
};

std::unique_ptr<LayerKernel> make_linear_kernel(CpuContext& context, bool bias,
                                                const KernelRequest& request);
std::unique_ptr<LayerKernel> make_linear_kernel(CudaContext& context, bool bias,
                                                const KernelRequest& request);

}  // namespace tandem
