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

bool TuneResult::measured_in_turns() const {
  return one_rank && best_other && !rows.at(*one_rank).final_runs.empty() &&
         !rows.at(*best_other).final_runs.empty();
}

}  // namespace tandem
