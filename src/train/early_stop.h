#pragma once

#include <cstdint>
#include <string>

#include "train/evaluator.h"

namespace tandem {

class ConfigTable;

/// When a run ends before its last epoch: once the metric has not improved for `patience`
/// evaluations in a row.
struct EarlyStopConfig {
  std::string metric = "top1";  ///< of the evaluations: "top1", "top5" or "loss"
  std::int64_t patience = 0;    ///< 0: never
  double min_delta = 0.0;       ///< an improvement is by more than this

  /// Reads early_stop_metric, early_stop_patience and early_stop_min_delta of [train].
  static EarlyStopConfig read(const ConfigTable& table);
};

/// What a checkpoint keeps of it. Trivially copyable: it travels as bytes.
struct EarlyStopState {
  double best = 0.0;           ///< the metric at its last improvement
  std::int64_t best_step = 0;  ///< where that was; 0: nothing was evaluated yet
  std::int64_t waited = 0;     ///< evaluations since, and those whose loss was not finite

  bool operator==(const EarlyStopState&) const = default;
};

/// Watches evaluations, which are the same on all ranks, so all decide the same.
class EarlyStop {
 public:
  explicit EarlyStop(EarlyStopConfig config) : config_(std::move(config)) {}

  /// After each evaluation.
  void watch(const Evaluation& evaluation, std::int64_t step);
  /// Whether the run is to end here.
  bool due() const { return config_.patience > 0 && state_.waited >= config_.patience; }
  /// Why, in words: "top1 has not risen by more than 0.001 above 0.9132 (step 1200) in 5
  /// evaluations".
  std::string reason() const;

  const EarlyStopConfig& config() const { return config_; }
  const EarlyStopState& state() const { return state_; }
  void restore(const EarlyStopState& state) { state_ = state; }

 private:
  EarlyStopConfig config_;
  EarlyStopState state_;
};

}  // namespace tandem
