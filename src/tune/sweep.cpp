#include "tune/sweep.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

constexpr int rounds = 3;
/// Of one run: a candidate that takes longer hangs.
constexpr double patience_seconds = 600.0;

std::vector<Placement> placements(const SearchLimits& limits, const TuneResult& searched) {
  std::vector<Placement> all{Placement{}};
  for (const int ranks : rank_counts(limits, searched.devices)) {
    all.push_back({.ranks_per_device = ranks, .colocation = Colocation::folded});
    if (!searched.on_gpus && ranks > limits.cores) continue;
    all.push_back({.ranks_per_device = ranks});
    if (!searched.on_gpus) continue;
    for (const int percent : sm_shares(ranks)) {
      all.push_back({.ranks_per_device = ranks, .sm_percent = percent});
    }
  }
  return all;
}

/// More workers would make it faster by a hundredth at most.
bool keeps_up(const Row& row) {
  constexpr double loader_keeps_up = 0.99;
  return row.measured() && row.training() >= loader_keeps_up * row.one_batch();
}

Row measure_once(const Candidate& candidate, const Measure& measure) {
  const Measurement found = measure(candidate, patience_seconds);
  Row row{.candidate = candidate,
          .problem = found.problem,
          .does_not_fit = found.does_not_fit,
          .timed_out = found.timed_out};
  if (found.rates) row.runs.push_back(*found.rates);
  return row;
}

}  // namespace

std::vector<Candidate> whole_grid(const SearchLimits& limits, const TuneResult& searched) {
  std::vector<Candidate> grid;
  for (const Placement& placement : placements(limits, searched)) {
    const int processes = searched.processes_of_host(placement);
    int workers = limits.workers;
    do {
      grid.push_back({.placement = placement, .workers = workers});
      workers *= 2;
    } while (workers * processes <= limits.cores);
  }
  return grid;
}

Sweep run_sweep(const SearchLimits& limits, const TuneResult& searched, const Measure& measure) {
  const Candidate choice = searched.rows.at(searched.choice).candidate;
  Sweep sweep;
  for (const Candidate& candidate : whole_grid(limits, searched)) {
    const bool was_enough = !sweep.rows.empty() &&
                            sweep.rows.back().candidate.placement == candidate.placement &&
                            keeps_up(sweep.rows.back());
    if (!was_enough || candidate == choice) sweep.rows.push_back(measure_once(candidate, measure));
  }
  const auto slower = [](const Row& a, const Row& b) {
    return (a.measured() ? a.training() : 0.0) < (b.measured() ? b.training() : 0.0);
  };
  const auto best = std::ranges::max_element(sweep.rows, slower);
  if (!best->measured()) input_error("no candidate of the sweep could be measured");
  sweep.best = static_cast<std::size_t>(best - sweep.rows.begin());

  sweep.again.push_back({.candidate = choice});
  if (best->candidate == choice) {
    sweep.again.front().runs = best->runs;
    return sweep;
  }
  sweep.again.push_back({.candidate = best->candidate});
  for (int round = 0; round < rounds; ++round) {
    for (Row& row : sweep.again) {
      const Measurement found = measure(row.candidate, patience_seconds);
      if (found.rates) row.runs.push_back(*found.rates);
    }
  }
  const Row& ours = sweep.again[0];
  const Row& theirs = sweep.again[1];
  if (!ours.measured() || !theirs.measured()) {
    input_error("the sweep's best and the choice could not be measured again");
  }
  sweep.regret = std::max(0.0, 1.0 - ours.training() / theirs.training());
  sweep.spread = std::max(ours.spread(), theirs.spread());
  return sweep;
}

}  // namespace tandem
