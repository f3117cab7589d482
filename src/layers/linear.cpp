#include "layers/linear.h"

#include <cmath>

namespace tandem {

LayerPtr Linear::from_config(const ConfigTable& table) {
  const std::int64_t out = table.get_int("out", 1, 1 << 24);
  return std::make_shared<Linear>(out, table.get_bool_or("bias", true));
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  if (inputs[0].rank() != 2 || inputs[0][1] < 1) {
    input_error("needs an input of N x C, not {}; put a pooling before it", inputs[0].text());
  }
  return {inputs[0][0], out_};
}

std::vector<ParameterSpec> Linear::parameters(std::span<const Shape> inputs) const {
  const double bound = 1.0 / std::sqrt(static_cast<double>(inputs[0][1]));
  std::vector<ParameterSpec> specs{{.name = "weight",
                                    .shape = {out_, inputs[0][1]},
                                    .role = ParameterRole::weight,
                                    .init = {Initializer::Kind::uniform, bound}}};
  if (bias_) {
    specs.push_back({.name = "bias",
                     .shape = {out_},
                     .role = ParameterRole::bias,
                     .init = {Initializer::Kind::uniform, bound}});
  }
  return specs;
}

std::int64_t Linear::multiply_adds(std::span<const Shape> inputs) const {
  return inputs[0].elements() * out_;
}

std::unique_ptr<LayerKernel> Linear::prepare(AnyContext& context,
                                             const KernelRequest& request) const {
  return std::visit([&](auto& device) { return make_linear_kernel(device, bias_, request); },
                    context);
}

}  // namespace tandem
