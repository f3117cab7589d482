#include "layers/convolution/conv2d.h"

#include <array>
#include <cmath>

#include "device/memory.h"
#include "layers/convolution/conv2d_cpu.h"
#include "layers/convolution/conv2d_cuda.h"

namespace tandem {

Conv2dOptions read_conv2d_options(const ConfigTable& table) {
  constexpr std::int64_t most = 65536;
  Conv2dOptions options;
  options.out_channels = table.get_int("out", 1, most);
  options.window.kernel = table.get_int("kernel", 1, most);
  options.window.stride = table.get_int_or("stride", 1, 1, most);
  options.window.padding = table.get_int_or("padding", 0, 0, most);
  options.window.dilation = table.get_int_or("dilation", 1, 1, most);
  options.groups = table.get_int_or("groups", 1, 1, most);
  options.bias = table.get_bool_or("bias", false);
  static const std::array<std::string, 2> inits{"kaiming", "fan_in"};
  options.init = table.get_choice_or("init", inits[0], inits) == inits[0] ? ConvInit::kaiming
                                                                          : ConvInit::fan_in;
  return options;
}

Shape conv2d_output_shape(const Conv2dOptions& options, const Shape& input) {
  const Shape output = windowed_shape(options.window, input, options.out_channels);
  if (input[3] % options.groups != 0 || options.out_channels % options.groups != 0) {
    input_error("{} input and {} output channels do not divide into {} groups", input[3],
                options.out_channels, options.groups);
  }
  return output;
}

std::vector<ParameterSpec> conv2d_parameters(const Conv2dOptions& options, const Shape& input) {
  const std::int64_t area = options.window.kernel * options.window.kernel;
  const std::int64_t in = input[3] / options.groups;
  const double fan_out = static_cast<double>(area * options.out_channels);
  const double bound = 1.0 / std::sqrt(static_cast<double>(area * in));
  const bool kaiming = options.init == ConvInit::kaiming;
  using Kind = Initializer::Kind;
  std::vector<ParameterSpec> specs{
      {.name = "weight",
       .shape = {options.out_channels, options.window.kernel, options.window.kernel, in},
       .role = ParameterRole::weight,
       .init = kaiming ? Initializer{Kind::normal, std::sqrt(2.0 / fan_out)}
                       : Initializer{Kind::uniform, bound}}};
  if (options.bias) {
    specs.push_back({.name = "bias",
                     .shape = {options.out_channels},
                     .role = ParameterRole::bias,
                     .init = kaiming ? Initializer{} : Initializer{Kind::uniform, bound}});
  }
  return specs;
}

std::int64_t conv2d_multiply_adds(const Conv2dOptions& options, const Shape& input) {
  return conv2d_output_shape(options, input).elements() * options.window.kernel *
         options.window.kernel * (input[3] / options.groups);
}

bool conv2d_can_add(const AnyContext& context) { return !is_host(context); }

LayerPtr Conv2d::from_config(const ConfigTable& table) {
  return std::make_shared<Conv2d>(read_conv2d_options(table));
}

Shape Conv2d::output_shape(std::span<const Shape> inputs) const {
  return conv2d_output_shape(options_, inputs[0]);
}

std::vector<ParameterSpec> Conv2d::parameters(std::span<const Shape> inputs) const {
  return conv2d_parameters(options_, inputs[0]);
}

std::int64_t Conv2d::multiply_adds(std::span<const Shape> inputs) const {
  return conv2d_multiply_adds(options_, inputs[0]);
}

std::unique_ptr<LayerKernel> Conv2d::prepare(AnyContext& context,
                                             const KernelRequest& request) const {
  return std::visit([&](auto& device) { return make_conv2d_kernel(device, options_, request); },
                    context);
}

}  // namespace tandem
