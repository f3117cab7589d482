#include "optim/schedule_config.h"

#include <fmt/core.h>

#include <string>

#include "base/config_table.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr double largest_factor = 1e12;
constexpr double most_epochs = 1e6;  // as train.epochs

double read_warmup(const ConfigTable& table, double epochs) {
  const double warmup = table.get_real_or("warmup_epochs", 0.0, 0.0, largest_factor);
  if (warmup > 0.0 && warmup >= epochs) {
    table.fail("warmup_epochs",
               fmt::format("{} leaves nothing of a run of {} epochs; shorten it", warmup, epochs));
  }
  return warmup;
}

StepSchedule read_step(const ConfigTable& table, double epochs) {
  StepSchedule schedule{.warmup_epochs = read_warmup(table, epochs)};
  schedule.milestones = table.get_reals("milestones");
  if (schedule.milestones.empty()) {
    table.fail("milestones", "missing; expected the epochs of the steps, as [30, 60]");
  }
  double before = 0.0;
  for (const double milestone : schedule.milestones) {
    if (!(milestone > before) || milestone > most_epochs) {
      table.fail("milestones", fmt::format("{} does not follow {}; expected ascending epochs "
                                           "above 0, at most {}",
                                           milestone, before, most_epochs));
    }
    before = milestone;
  }
  schedule.gamma = table.get_real_or("gamma", schedule.gamma, 0.0, largest_factor);
  return schedule;
}

CosineSchedule read_cosine(const ConfigTable& table, double base_rate, double epochs) {
  CosineSchedule schedule{.warmup_epochs = read_warmup(table, epochs)};
  schedule.lr_min = table.get_real_or("lr_min", 0.0, 0.0, base_rate);
  return schedule;
}

OneCycleSchedule read_one_cycle(const ConfigTable& table) {
  OneCycleSchedule schedule;
  schedule.div_factor = table.get_real_or("div_factor", schedule.div_factor, 1.0, largest_factor);
  schedule.final_div_factor =
      table.get_real_or("final_div_factor", schedule.final_div_factor, 1.0, largest_factor);
  schedule.pct_start = table.get_real_or("pct_start", schedule.pct_start, 0.0, 1.0);
  return schedule;
}

}  // namespace

Schedule read_schedule_config(const ConfigTable& table, double base_rate, double epochs) {
  const std::vector<std::string> kinds{"constant", "step", "cosine", "one-cycle"};
  const std::string kind = table.get_choice_or("kind", "constant", kinds);
  if (kind == "step") return read_step(table, epochs);
  if (kind == "cosine") return read_cosine(table, base_rate, epochs);
  if (kind == "one-cycle") return read_one_cycle(table);
  return ConstantSchedule{.warmup_epochs = read_warmup(table, epochs)};
}

}  // namespace tandem
