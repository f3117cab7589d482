#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tandem {
namespace {

std::int64_t to_steps(double epochs, const Horizon& horizon) {
  return std::llround(epochs * static_cast<double>(horizon.steps_per_epoch));
}

double warmup_factor(std::int64_t warmup, std::int64_t step) {
  return step < warmup ? static_cast<double>(step + 1) / static_cast<double>(warmup + 1) : 1.0;
}

/// Half a cosine from `from` at 0 to `to` at 1.
double half_cosine(double from, double to, double progress) {
  return to + (from - to) / 2.0 * (1.0 + std::cos(std::numbers::pi * progress));
}

double rate(const ConstantSchedule& schedule, const Horizon& horizon, double base,
            std::int64_t step) {
  return base * warmup_factor(to_steps(schedule.warmup_epochs, horizon), step);
}

double rate(const StepSchedule& schedule, const Horizon& horizon, double base, std::int64_t step) {
  double decayed = base;
  for (const double milestone : schedule.milestones) {
    if (step >= to_steps(milestone, horizon)) decayed *= schedule.gamma;
  }
  return decayed * warmup_factor(to_steps(schedule.warmup_epochs, horizon), step);
}

double rate(const CosineSchedule& schedule, const Horizon& horizon, double base,
            std::int64_t step) {
  const std::int64_t warmup = to_steps(schedule.warmup_epochs, horizon);
  if (step < warmup) return base * warmup_factor(warmup, step);
  const auto length = static_cast<double>(std::max<std::int64_t>(1, horizon.total_steps - warmup));
  return half_cosine(base, schedule.lr_min, static_cast<double>(step - warmup) / length);
}

double rate(const OneCycleSchedule& schedule, const Horizon& horizon, double base,
            std::int64_t step) {
  const double first = base / schedule.div_factor;
  const double last = first / schedule.final_div_factor;
  // torch's phase ends: the peak lies between two steps where pct_start * total_steps is no
  // integer, and before step 0 where it is below one.
  const double peak = schedule.pct_start * static_cast<double>(horizon.total_steps) - 1.0;
  const double end = static_cast<double>(horizon.total_steps) - 1.0;
  const auto at = static_cast<double>(step);
  if (at <= peak) return peak > 0.0 ? half_cosine(first, base, at / peak) : base;
  return half_cosine(base, last, (at - peak) / (end - peak));
}

}  // namespace

double learning_rate_at(const Schedule& schedule, const Horizon& horizon, double base_rate,
                        std::int64_t step) {
  TANDEM_CHECK(horizon.steps_per_epoch >= 1 && horizon.total_steps >= 1,
               "a schedule over {} steps, {} an epoch", horizon.total_steps,
               horizon.steps_per_epoch);
  TANDEM_CHECK(step >= 0, "the learning rate of step {}", step);
  const std::int64_t within = std::min(step, horizon.total_steps - 1);
  return std::visit([&](const auto& kind) { return rate(kind, horizon, base_rate, within); },
                    schedule);
}

}  // namespace tandem
