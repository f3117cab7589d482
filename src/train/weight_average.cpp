#include "train/weight_average.h"

#include <algorithm>

#include "base/error.h"
#include "optim/average_kernels.h"

namespace tandem {

double WeightAverageConfig::decay_at(std::int64_t update) const {
  if (!warmup) return decay;
  const auto n = static_cast<double>(update);
  return std::min(decay, (1.0 + n) / (10.0 + n));
}

WeightAverage::WeightAverage(const Graph& graph, AnyContext& context, const NamePrefixes& frozen,
                             const WeightAverageConfig& config)
    : context_(&context), config_(config), store_(graph, context, false, frozen) {
  TANDEM_CHECK(config.decay > 0.0 && config.decay < 1.0, "an average that decays by {}",
               config.decay);
}

void WeightAverage::start_from(const ParameterStore& trained) {
  std::ranges::copy(trained.all_values().span<float>(), store_.all_values().data<float>());
  std::ranges::copy(trained.all_buffers().span<float>(), store_.all_buffers().data<float>());
}

void WeightAverage::update(const ParameterStore& trained, std::int64_t steps_taken) {
  const auto weight = static_cast<float>(1.0 - config_.decay_at(steps_taken));
  const auto follow = [&](const Tensor& values, const Tensor& average) {
    std::visit(
        [&](auto& device) {
          average_into(device, values.elements(), weight, values.data<float>(),
                       average.data<float>());
        },
        *context_);
  };
  follow(trained.all_values(), store_.all_values());
  follow(trained.all_buffers(), store_.all_buffers());
}

}  // namespace tandem
