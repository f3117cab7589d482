#include "optim/lars.h"

#include <cmath>

#include "base/error.h"
#include "optim/gradient_norm_kernels.h"
#include "optim/lars_kernels.h"

namespace tandem {

Lars::Lars(AnyContext& context, std::int64_t arena_elements,
           std::span<const ParameterGroupSlice> slices, const LarsOptions& options)
    : Optimizer(context, arena_elements, slices),
      options_(options),
      slices_(slices.begin(), slices.end()),
      blocks_(cut_blocks(slices)),
      parameter_squares_(blocks_.size()),
      gradient_squares_(blocks_.size()),
      rates_(slices.size()),
      momentum_(context, static_cast<std::size_t>(arena_elements) * sizeof(float),
                "the optimizer's momentum") {
  TANDEM_CHECK(options.momentum >= 0.0F && options.momentum < 1.0F, "a momentum of {}",
               options.momentum);
  TANDEM_CHECK(options.trust_coefficient > 0.0F, "a trust coefficient of {}",
               options.trust_coefficient);
}

std::vector<OptimizerState> Lars::state() {
  return {{"momentum", Tensor(momentum_.data(), {arena_elements()})}};
}

void Lars::set_rates(const UpdateSettings& settings) {
  std::size_t block = 0;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    double parameters = 0.0;
    double gradients = 0.0;
    for (; block < blocks_.size() && blocks_[block].slice == i; ++block) {
      parameters += parameter_squares_[block];
      gradients += gradient_squares_[block];
    }
    const double w = std::sqrt(parameters);
    const double g = std::sqrt(gradients) * std::abs(static_cast<double>(settings.gradient_scale));
    double ratio = 1.0;
    if (slices_[i].adapt && w > 0.0 && g > 0.0) {
      ratio = static_cast<double>(options_.trust_coefficient) * w /
              (g + static_cast<double>(slices_[i].weight_decay) * w);
    }
    rates_[i] = static_cast<float>(static_cast<double>(settings.learning_rate) * ratio);
  }
}

void Lars::update(AnyContext& context, float* parameters, const float* gradients,
                  const UpdateSettings& settings) {
  std::visit(
      [&](auto& device) {
        square_sums(device, blocks_, parameters, parameter_squares_);
        square_sums(device, blocks_, gradients, gradient_squares_);
        set_rates(settings);
        lars_update(device, {.blocks = blocks_,
                             .rates = rates_,
                             .gradient_scale = settings.gradient_scale,
                             .momentum = options_.momentum,
                             .parameters = parameters,
                             .gradients = gradients,
                             .momentum_buffer = reinterpret_cast<float*>(momentum_.data())});
      },
      context);
}

}  // namespace tandem
