#include "optim/sgd.h"

#include "base/error.h"

namespace tandem {
Sgd::Sgd(AnyContext& context, std::int64_t arena_elements,
         std::span<const ParameterGroupSlice> slices, const SgdOptions& options)
    : Optimizer(context, arena_elements, slices), options_(options), blocks_(context, slices) {
  TANDEM_CHECK(options.momentum >= 0.0F, "a momentum of {}", options.momentum);
  TANDEM_CHECK(!options.nesterov || options.momentum > 0.0F, "Nesterov's rule needs momentum");
  if (options.momentum > 0.0F) {
    momentum_ = Arena(context, static_cast<std::size_t>(arena_elements) * sizeof(float),
                      "the optimizer's momentum");
  }
}

std::vector<OptimizerState> Sgd::state() {
  if (momentum_.data() == nullptr) return {};
  return {{"momentum", Tensor(momentum_.data(), {arena_elements()})}};
}

void Sgd::update(AnyContext& context, float* parameters, const float* gradients,
                 const UpdateSettings& settings) {
  const SgdUpdate update{.blocks = blocks_.within(settings.begin, settings.end),
                         .learning_rate = settings.learning_rate,
                         .gradient_scale = settings.gradient_scale,
                         .momentum = options_.momentum,
                         .nesterov = options_.nesterov,
                         .parameters = parameters,
                         .gradients = gradients,
                         .momentum_buffer = reinterpret_cast<float*>(momentum_.data()),
                         .control = settings.control,
                         .weights = settings.weights,
                         .peers = settings.peers};
  std::visit([&](auto& device) { sgd_update(device, update); }, context);
}

}  // namespace tandem
