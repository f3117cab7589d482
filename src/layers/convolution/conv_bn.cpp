#include "layers/convolution/conv_bn.h"

#include <fmt/format.h>

#include <algorithm>

#include "layers/convolution/conv_bn_cpu.h"
#include "layers/convolution/conv_bn_cuda.h"

namespace tandem {

ConvBn::ConvBn(const ConvBnOptions& options) : options_(options) {
  TANDEM_CHECK(!options.conv.bias, "a convolution before a normalisation has no bias");
  TANDEM_CHECK(!options.add || fuses_with_add(options.activation), "{} behind a fused sum",
               name_of(options.activation));
  TANDEM_CHECK(!options.join || (!options.add && fuses_with_join(options.activation)),
               "a fused join behind {}", options.add ? "a sum" : name_of(options.activation));
}

bool ConvBn::joins(const Shape& other, const Shape& own) {
  return other.rank() == 4 && other[0] == own[0] && other[1] == own[1] && other[2] == own[2] &&
         other[3] % own[3] == 0;
}

LayerPtr ConvBn::from_config(const ConfigTable& table) {
  ConvBnOptions options;
  options.conv = read_conv2d_options(table);
  options.norm = read_batch_norm_options(table);
  options.add = table.get_bool_or("add", false);
  options.activation = read_fused_activation(table);
  options.join = table.get_bool_or("join", false);
  if (options.conv.bias) table.fail("bias", "conv_bn has no bias: the normalisation cancels it");
  if (options.add && !fuses_with_add(options.activation)) {
    table.fail("activation", fmt::format("conv_bn has no {} behind a sum; write add and {} as "
                                         "layers of their own",
                                         name_of(options.activation), name_of(options.activation)));
  }
  if (options.join && options.add) table.fail("join", "conv_bn joins no sum");
  if (options.join && !fuses_with_join(options.activation)) {
    table.fail("activation", fmt::format("conv_bn joins nothing behind {}; write shuffle_join as a "
                                         "layer of its own",
                                         name_of(options.activation)));
  }
  return std::make_shared<ConvBn>(options);
}

Shape ConvBn::output_shape(std::span<const Shape> inputs) const {
  const Shape output = conv2d_output_shape(options_.conv, inputs[0]);
  if (options_.join) {
    if (!joins(inputs[1], output)) {
      input_error(
          "cannot join {} and the convolution's {}; the first needs as many rows and columns, and "
          "once or several times its channels",
          inputs[1].text(), output.text());
    }
    return {output[0], output[1], output[2], 2 * output[3]};
  }
  if (options_.add && inputs[1] != output) {
    input_error("cannot add {} to the convolution's {}", inputs[1].text(), output.text());
  }
  return output;
}

std::vector<ParameterSpec> ConvBn::parameters(std::span<const Shape> inputs) const {
  std::vector<ParameterSpec> specs = conv2d_parameters(options_.conv, inputs[0]);
  for (ParameterSpec& spec : batch_norm_parameters(options_.conv.out_channels)) {
    spec.name = "norm_" + spec.name;
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<BufferSpec> ConvBn::buffers(std::span<const Shape> /*inputs*/) const {
  return batch_norm_buffers(options_.conv.out_channels);
}

std::int64_t ConvBn::multiply_adds(std::span<const Shape> inputs) const {
  return conv2d_multiply_adds(options_.conv, inputs[0]);
}

std::string ConvBn::options_text() const {
  return fmt::format("{} {}{}", options_.conv.window.text(), name_of(options_.activation),
                     options_.join ? " join" : "");
}

LayerTraffic ConvBn::traffic(std::span<const Shape> inputs, DType dtype) const {
  LayerTraffic traffic = Layer::traffic(inputs, dtype);
  if (options_.join) {
    traffic.product /= 2;
    traffic.inputs[1] = traffic.product;
  }
  traffic.bits_for_output = options_.add && passes_are_bits(options_.activation, size_of(dtype),
                                                            options_.conv.out_channels);
  return traffic;
}

std::unique_ptr<LayerKernel> ConvBn::prepare(AnyContext& context,
                                             const KernelRequest& request) const {
  return std::visit([&](auto& device) { return make_conv_bn_kernel(device, options_, request); },
                    context);
}

bool conv_bn_is_constant(const KernelRequest& request) {
  const auto wanted = [](const std::vector<bool>& gradients) {
    return std::ranges::find(gradients, true) != gradients.end();
  };
  return request.fixed_statistics && !wanted(request.input_gradients) &&
         !request.parameter_gradients.empty() && !wanted(request.parameter_gradients);
}

}  // namespace tandem
