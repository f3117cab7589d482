#include "train/step/weight_average.h"

#include <algorithm>

#include "base/error.h"
#include "device/memory.h"
#include "optim/average_kernels.h"

namespace tandem {

double WeightAverageConfig::decay_at(std::int64_t update) const {
  if (!warmup) return decay;
  const auto n = static_cast<double>(update);
  return std::min(decay, (1.0 + n) / (10.0 + n));
}

WeightAverage::WeightAverage(const Graph& graph, AnyContext& context, const NamePrefixes& frozen,
                             const WeightAverageConfig& config, Precision precision)
    : context_(&context), config_(config), store_(graph, context, false, frozen, precision) {
  TANDEM_CHECK(config.decay > 0.0 && config.decay < 1.0, "an average that decays by {}",
               config.decay);
}

void WeightAverage::start_from(const ParameterStore& trained) {
  const auto copy = [this](const Tensor& from, const Tensor& to) {
    copy_on_device(*context_, from.raw(), from.bytes(), to.raw());
  };
  copy(trained.all_values(), store_.all_values());
  copy(trained.all_buffers(), store_.all_buffers());
  store_.update_weights();
}

void WeightAverage::update(const ParameterStore& trained, std::int64_t steps_taken) {
  follow(trained, weight_at(steps_taken), nullptr);
}

void WeightAverage::enqueue(const ParameterStore& trained, const StepControl* control) {
  follow(trained, 0.0F, control);
}

void WeightAverage::follow(const ParameterStore& trained, float weight,
                           const StepControl* control) {
  const auto follow = [&](const Tensor& values, const Tensor& average) {
    std::visit(
        [&](auto& device) {
          average_into(device, values.elements(), weight, values.data<float>(),
                       average.data<float>(), control);
        },
        *context_);
  };
  follow(trained.all_values(), store_.all_values());
  follow(trained.all_buffers(), store_.all_buffers());
}

}  // namespace tandem
