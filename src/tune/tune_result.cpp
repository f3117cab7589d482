#include <algorithm>
#include <cmath>

#include "base/median.h"
#include "tune/search.h"

namespace tandem {
namespace {

/// Of the runs before those in turns; 0 where there are none.
double first_one_batch(const Row& row) {
  std::vector<double> rates;
  for (const Rates& run : row.runs) rates.push_back(run.one_batch);
  return rates.empty() ? 0.0 : median(std::move(rates));
}

/// How far the gain on one batch in turns is from that of the runs before, as a share of one rank's
/// rate.
double contradiction(const Row& one, const Row& other) {
  const double one_first = first_one_batch(one);
  const double other_first = first_one_batch(other);
  if (one_first <= 0.0 || other_first <= 0.0) return 0.0;
  return std::abs(other.one_batch() / one.one_batch() - other_first / one_first);
}

}  // namespace

int TuneResult::processes_of_host(const Placement& placement) const {
  return processes_of(placement) * (on_gpus ? (devices + hosts - 1) / hosts : 1);
}

double TuneResult::gain() const {
  return rows.at(best_other.value()).training() / rows.at(one_rank.value()).training() - 1.0;
}

double TuneResult::spread() const {
  const Row& one = rows.at(one_rank.value());
  const Row& other = rows.at(best_other.value());
  const double of_runs = std::max(other.spread(), one.spread());
  const bool single = measured_in_turns() && one.final_runs.size() == 1;
  return single ? std::max(of_runs, contradiction(one, other)) : of_runs;
}

bool TuneResult::measured_in_turns() const {
  return one_rank && best_other && !rows.at(*one_rank).final_runs.empty() &&
         !rows.at(*best_other).final_runs.empty();
}

}  // namespace tandem
