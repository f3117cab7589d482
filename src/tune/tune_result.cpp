#include <algorithm>

#include "tune/search.h"

namespace tandem {

int TuneResult::processes_of_host(const Placement& placement) const {
  return processes_of(placement) * (on_gpus ? (devices + hosts - 1) / hosts : 1);
}

double TuneResult::gain() const {
  return rows.at(best_other.value()).training() / rows.at(one_rank.value()).training() - 1.0;
}

double TuneResult::spread() const {
  return std::max(rows.at(best_other.value()).spread(), rows.at(one_rank.value()).spread());
}

std::optional<double> TuneResult::gain_before_only_round() const {
  if (!measured_in_turns()) return std::nullopt;
  const Row& one = rows.at(*one_rank);
  const Row& other = rows.at(*best_other);
  const std::size_t rounds = std::min(one.final_runs.size(), other.final_runs.size());
  if (rounds != 1 || one.runs.empty() || other.runs.empty()) return std::nullopt;
  return other.first_training() / one.first_training() - 1.0;
}

bool TuneResult::other_is_faster() const {
  return gain() > spread() && gain_before_only_round().value_or(gain()) > spread();
}

bool TuneResult::is_contradicted() const {
  const double apart = (1.0 + gain_before_only_round().value_or(gain())) / (1.0 + gain());
  return std::max(apart, 1.0 / apart) > contradiction;
}

bool TuneResult::measured_in_turns() const {
  return one_rank && best_other && !rows.at(*one_rank).final_runs.empty() &&
         !rows.at(*best_other).final_runs.empty();
}

}  // namespace tandem
