#pragma once

#include <cstdint>

#include "graph/parameters.h"
#include "optim/step_control.h"

namespace tandem {

struct WeightAverageConfig {
  double decay = 0.0;  ///< 0: no average is kept
  bool warmup = false;

  /// The decay of update number `update`, from 1: `decay`, and with `warmup` at most
  /// (1 + update) / (10 + update), so that a short run's average forgets its start (as
  /// TensorFlow's ExponentialMovingAverage with num_updates does).
  double decay_at(std::int64_t update) const;
};

/// The exponential moving average of a model's parameters and running statistics, updated after
/// each optimizer step: average = decay * average + (1 - decay) * trained. It starts as the weights
/// that the run starts from. A model of its own, laid out like the trained one, that can be
/// evaluated.
class WeightAverage {
 public:
  /// `graph` and `frozen` as of the trained store; graph and context outlive this.
  WeightAverage(const Graph& graph, AnyContext& context, const NamePrefixes& frozen,
                const WeightAverageConfig& config, Precision precision = Precision::fp32);

  void start_from(const ParameterStore& trained);
  /// `steps_taken`: the optimizer's updates so far, the one just made included. Allocates nothing.
  void update(const ParameterStore& trained, std::int64_t steps_taken);
  /// The same with the weight and the skip of a step's control, enqueued.
  void enqueue(const ParameterStore& trained, const StepControl* control);
  /// What the average takes of the trained weights at update number `update`.
  float weight_at(std::int64_t update) const {
    return static_cast<float>(1.0 - config_.decay_at(update));
  }

  ParameterStore& store() { return store_; }

 private:
  void follow(const ParameterStore& trained, float weight, const StepControl* control);

  AnyContext* context_;
  WeightAverageConfig config_;
  ParameterStore store_;
};

}  // namespace tandem
