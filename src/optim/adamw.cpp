#include "optim/adamw.h"

#include <cmath>

#include "base/error.h"
#include "optim/adamw_kernels.h"

namespace tandem {

AdamW::AdamW(AnyContext& context, std::int64_t arena_elements,
             std::span<const ParameterGroupSlice> slices, const AdamWOptions& options)
    : Optimizer(context, arena_elements, slices), options_(options), blocks_(context, slices) {
  TANDEM_CHECK(
      options.beta1 >= 0.0 && options.beta1 < 1.0 && options.beta2 >= 0.0 && options.beta2 < 1.0,
      "betas of {} and {}", options.beta1, options.beta2);
  TANDEM_CHECK(options.epsilon > 0.0, "an epsilon of {}", options.epsilon);
  const std::size_t bytes = static_cast<std::size_t>(arena_elements) * sizeof(float);
  first_moment_ = Arena(context, bytes, "the optimizer's first moment");
  second_moment_ = Arena(context, bytes, "the optimizer's second moment");
}

std::vector<OptimizerState> AdamW::state() {
  return {{"exp_avg", Tensor(first_moment_.data(), {arena_elements()})},
          {"exp_avg_sq", Tensor(second_moment_.data(), {arena_elements()})}};
}

void AdamW::fill(HostControl& control, float learning_rate) const {
  Optimizer::fill(control, learning_rate);
  control.beta1 = options_.beta1;
  control.beta2 = options_.beta2;
}

void AdamW::update(AnyContext& context, float* parameters, const float* gradients,
                   const UpdateSettings& settings) {
  // In double: 1 - beta2^t loses most of a float's digits while t is small.
  const auto t = static_cast<double>(steps_taken() + 1);
  const double correction1 = 1.0 - std::pow(options_.beta1, t);
  const double correction2 = 1.0 - std::pow(options_.beta2, t);
  const auto rate = static_cast<double>(settings.learning_rate);
  const AdamWUpdate update{
      .blocks = blocks_.within(settings.begin, settings.end),
      .learning_rate = settings.learning_rate,
      .gradient_scale = settings.gradient_scale,
      .beta1 = static_cast<float>(options_.beta1),
      .one_minus_beta1 = static_cast<float>(1.0 - options_.beta1),
      .beta2 = static_cast<float>(options_.beta2),
      .one_minus_beta2 = static_cast<float>(1.0 - options_.beta2),
      .epsilon = static_cast<float>(options_.epsilon),
      .step_size = static_cast<float>(rate / correction1),
      .inverse_root_correction = static_cast<float>(1.0 / std::sqrt(correction2)),
      .parameters = parameters,
      .gradients = gradients,
      .first_moment = reinterpret_cast<float*>(first_moment_.data()),
      .second_moment = reinterpret_cast<float*>(second_moment_.data()),
      .control = settings.control,
      .weights = settings.weights,
      .peers = settings.peers};
  std::visit([&](auto& device) { adamw_update(device, update); }, context);
}

}  // namespace tandem
