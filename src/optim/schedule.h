#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace tandem {

/// The learning rate that [optimizer] names, all along.
struct ConstantSchedule {
  double warmup_epochs = 0.0;
};

/// Times gamma at each milestone, as torch's MultiStepLR.
struct StepSchedule {
  double warmup_epochs = 0.0;
  std::vector<double> milestones{};  ///< epochs from the start, ascending; fractions allowed
  double gamma = 0.1;
};

/// Half a cosine from the learning rate to lr_min over the steps after the warm-up, as torch's
/// CosineAnnealingLR: step 0 after the warm-up has the full rate, and lr_min would be reached by
/// the step after the last.
struct CosineSchedule {
  double warmup_epochs = 0.0;
  double lr_min = 0.0;
};

/// torch's OneCycleLR (anneal_strategy "cos", two phases, momentum left alone): from
/// lr / div_factor up to lr over the first pct_start of all steps, then down to
/// lr / div_factor / final_div_factor, which the last step has. It is its own warm-up.
struct OneCycleSchedule {
  double div_factor = 25.0;
  double final_div_factor = 1e4;
  double pct_start = 0.3;
};

using Schedule = std::variant<ConstantSchedule, StepSchedule, CosineSchedule, OneCycleSchedule>;

/// How long a run is, in optimizer steps (updates, not micro-batches).
struct Horizon {
  std::int64_t steps_per_epoch = 1;
  std::int64_t total_steps = 1;
};

/// The learning rate of update number `step` (0-based) of a run whose [optimizer] says `base_rate`.
/// A pure function, so that a resumed run continues as if it had never stopped. Steps past the
/// horizon have the last step's rate.
///
/// A warm-up of w epochs is W = round(w * steps_per_epoch) steps, and multiplies update s < W by
/// (s + 1) / (W + 1): a straight line that starts above zero and meets the full rate at update W.
double learning_rate_at(const Schedule& schedule, const Horizon& horizon, double base_rate,
                        std::int64_t step);

}  // namespace tandem
