#include "train/early_stop.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "base/config_table.h"

namespace tandem {
namespace {

double value_of(const std::string& metric, const Evaluation& evaluation) {
  if (metric == "loss") return evaluation.loss;
  return metric == "top5" ? evaluation.top5 : evaluation.top1;
}

}  // namespace

EarlyStopConfig EarlyStopConfig::read(const ConfigTable& table) {
  static const std::vector<std::string> metrics{"top1", "top5", "loss"};
  EarlyStopConfig config;
  config.metric = table.get_choice_or("early_stop_metric", config.metric, metrics);
  config.patience = table.get_int_or("early_stop_patience", 0, 0, 1'000'000);
  config.min_delta = table.get_real_or("early_stop_min_delta", 0.0, 0.0, 1e6);
  return config;
}

void EarlyStop::watch(const Evaluation& evaluation, std::int64_t step) {
  // Outputs that are not finite score a few hits by chance, which are no improvement.
  if (!std::isfinite(evaluation.loss)) {
    ++state_.waited;
    return;
  }
  const double value = value_of(config_.metric, evaluation);
  const double gain = config_.metric == "loss" ? state_.best - value : value - state_.best;
  if (state_.best_step == 0 || std::isnan(state_.best) || gain > config_.min_delta) {
    state_ = {.best = value, .best_step = step};
  } else {
    ++state_.waited;
  }
}

std::string EarlyStop::reason() const {
  if (state_.best_step == 0) {
    return fmt::format("no loss was finite in {} evaluation{}", state_.waited,
                       state_.waited == 1 ? "" : "s");
  }
  const bool falls = config_.metric == "loss";
  const std::string delta =
      config_.min_delta > 0.0 ? fmt::format(" by more than {}", config_.min_delta) : "";
  return fmt::format("{} has not {}{} {} {:.4f} (step {}) in {} evaluation{}", config_.metric,
                     falls ? "fallen" : "risen", delta, falls ? "below" : "above", state_.best,
                     state_.best_step, state_.waited, state_.waited == 1 ? "" : "s");
}

}  // namespace tandem
