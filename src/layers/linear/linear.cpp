#include "layers/linear/linear.h"

#include <array>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

Initializer weight_init(LinearInit init, std::int64_t in, std::int64_t out) {
  using Kind = Initializer::Kind;
  switch (init) {
    case LinearInit::fan_in:
      return {Kind::uniform, 1.0 / std::sqrt(static_cast<double>(in))};
    case LinearInit::normal:
      return {Kind::normal, 0.01};
    case LinearInit::fan_out:
      return {Kind::uniform, 1.0 / std::sqrt(static_cast<double>(out))};
  }
  throw Error("an initialisation of unknown kind");
}

}  // namespace

LinearInit read_linear_init(const ConfigTable& table) {
  static const std::array<std::string, 3> names{"fan_in", "normal", "fan_out"};
  const std::string chosen = table.get_choice_or("init", names[0], names);
  std::size_t index = 0;
  while (names[index] != chosen) ++index;
  return static_cast<LinearInit>(index);
}

LayerPtr Linear::from_config(const ConfigTable& table) {
  const std::int64_t out = table.get_int("out", 1, 1 << 24);
  return std::make_shared<Linear>(out, table.get_bool_or("bias", true), read_linear_init(table));
}

Shape Linear::output_shape(std::span<const Shape> inputs) const {
  if (inputs[0].rank() != 2 || inputs[0][1] < 1) {
    input_error("needs an input of N x C, not {}; put a pooling before it", inputs[0].text());
  }
  return {inputs[0][0], out_};
}

std::vector<ParameterSpec> Linear::parameters(std::span<const Shape> inputs) const {
  const Initializer init = weight_init(init_, inputs[0][1], out_);
  std::vector<ParameterSpec> specs{{.name = "weight",
                                    .shape = {out_, inputs[0][1]},
                                    .role = ParameterRole::weight,
                                    .init = init}};
  if (bias_) {
    specs.push_back({.name = "bias",
                     .shape = {out_},
                     .role = ParameterRole::bias,
                     .init = init_ == LinearInit::fan_in ? init : Initializer{}});
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
