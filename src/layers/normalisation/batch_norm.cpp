#include "layers/normalisation/batch_norm.h"

#include "layers/normalisation/batch_norm_cpu.h"
#include "layers/normalisation/batch_norm_cuda.h"

namespace tandem {

BatchNormOptions read_batch_norm_options(const ConfigTable& table) {
  BatchNormOptions options;
  options.epsilon = static_cast<float>(table.get_real_or("epsilon", 1e-5, 1e-12, 1.0));
  options.momentum = static_cast<float>(table.get_real_or("momentum", 0.1, 0.0, 1.0));
  return options;
}

std::vector<ParameterSpec> batch_norm_parameters(std::int64_t channels) {
  return {{.name = "weight",
           .shape = {channels},
           .role = ParameterRole::norm,
           .init = {Initializer::Kind::constant, 1.0}},
          {.name = "bias",
           .shape = {channels},
           .role = ParameterRole::norm,
           .init = {Initializer::Kind::constant, 0.0}}};
}

std::vector<BufferSpec> batch_norm_buffers(std::int64_t channels) {
  return {{.name = "running_mean", .shape = {channels}, .initial = 0.0F},
          {.name = "running_var", .shape = {channels}, .initial = 1.0F}};
}

bool has_statistics_of_rank(const KernelRequest& request) {
  return request.training && !request.fixed_statistics && request.rank_sum == nullptr;
}

BatchNormShape batch_norm_shape(const KernelRequest& request) {
  const std::int64_t channels = request.output[request.output.rank() - 1];
  const std::int64_t rows = request.output.elements() / channels;
  if (!has_statistics_of_rank(request)) return {.rows = rows, .channels = channels};
  TANDEM_CHECK(request.output[0] % request.batch_groups == 0, "{} samples in {} groups",
               request.output[0], request.batch_groups);
  return {
      .rows = rows / request.batch_groups, .channels = channels, .groups = request.batch_groups};
}

LayerPtr BatchNorm::from_config(const ConfigTable& table) {
  return std::make_shared<BatchNorm>(read_batch_norm_options(table));
}

Shape BatchNorm::output_shape(std::span<const Shape> inputs) const {
  if (inputs[0].rank() < 2) {
    input_error("needs an input of at least two extents, not {}", inputs[0].text());
  }
  return inputs[0];
}

std::vector<ParameterSpec> BatchNorm::parameters(std::span<const Shape> inputs) const {
  return batch_norm_parameters(inputs[0][inputs[0].rank() - 1]);
}

std::vector<BufferSpec> BatchNorm::buffers(std::span<const Shape> inputs) const {
  return batch_norm_buffers(inputs[0][inputs[0].rank() - 1]);
}

std::unique_ptr<LayerKernel> BatchNorm::prepare(AnyContext& context,
                                                const KernelRequest& request) const {
  return std::visit([&](auto& device) { return make_batch_norm_kernel(device, options_, request); },
                    context);
}

}  // namespace tandem
