#pragma once

#include <cstdint>

#include "graph/parameters.h"

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
                const WeightAverageConfig& config);

  void start_from(const ParameterStore& trained);
  /// `steps_taken`: the optimizer's updates so far, the one just made included. Allocates nothing.
  void update(const ParameterStore& trained, std::int64_t steps_taken);

  ParameterStore& store() { return store_; }

 private:
  AnyContext* context_;
  WeightAverageConfig config_;
  ParameterStore store_;
};

}  // namespace tandem
