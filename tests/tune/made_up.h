#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tune/search.h"

namespace tandem {

/// A machine whose candidates run as fast as a test says, on a clock of its own.
struct MadeUpMachine {
  std::function<double(const Candidate&)> one_batch = [](const Candidate&) { return 1000.0; };
  /// Of the loader with so many threads in all.
  std::function<double(int threads)> loader = [](int /*threads*/) { return 1e9; };
  std::function<std::string(const Candidate&)> problem = [](const Candidate&) { return ""; };
  double noise = 0.0;  ///< runs are alternately so much faster and slower, as a share
  double run_seconds = 4.0;
  /// What a run of it takes more.
  std::function<double(const Candidate&)> more_seconds = [](const Candidate&) { return 0.0; };
  double first_run_seconds = 4.0;
  bool on_gpus = true;
  int devices = 1;
  int hosts = 1;

  double now = 0.0;
  std::vector<Candidate> runs{};
  std::vector<Candidate> own_shares{};  ///< those with an SM share whose kernels were chosen
  /// What borrowed kernels cost of a rate, and choosing a share's own of time.
  double borrowing_costs = 0.0;
  double choosing_seconds = 0.0;

  Measurement measure(const Candidate& candidate, Kernels kernels, double seconds) {
    double takes = (runs.empty() ? first_run_seconds : run_seconds) + more_seconds(candidate);
    runs.push_back(candidate);
    const bool is_share = candidate.placement.sm_percent > 0;
    bool has_own = !is_share || has(own_shares, candidate.placement);
    if (!has_own && kernels == Kernels::own) {
      takes += choosing_seconds;
      has_own = true;
      if (takes <= seconds) own_shares.push_back(candidate);
    }
    if (takes > seconds) {
      now += seconds;
      return {.problem = "took too long", .timed_out = true};
    }
    now += takes;
    if (const std::string why = problem(candidate); !why.empty()) {
      return {.problem = why, .does_not_fit = why.find("memory") != std::string::npos};
    }
    const double sign = runs.size() % 2 == 0 ? 1.0 : -1.0;
    const double costs = has_own ? 0.0 : borrowing_costs;
    const double alone = one_batch(candidate) * (1.0 + sign * noise) * (1.0 - costs);
    const double fed = loader(candidate.workers * processes_of(candidate.placement));
    return {.rates = Rates{.training = std::min(alone, fed), .one_batch = alone, .loader = fed},
            .device = "made-up GPU",
            .devices = devices,
            .hosts = hosts,
            .on_gpus = on_gpus};
  }

  TuneResult search(const SearchLimits& limits) {
    return search_placement(
        limits,
        [this](const Candidate& candidate, Kernels kernels, double most) {
          return measure(candidate, kernels, most);
        },
        [this] { return now; });
  }

  static bool has(const std::vector<Candidate>& candidates, const Placement& placement) {
    return std::ranges::find(candidates, placement, &Candidate::placement) != candidates.end();
  }
};

inline Candidate choice_of(const TuneResult& result) {
  return result.rows.at(result.choice).candidate;
}

inline bool has_run(const MadeUpMachine& machine, const Candidate& candidate) {
  return std::ranges::find(machine.runs, candidate) != machine.runs.end();
}

inline const Row& row_of(const TuneResult& result, const Candidate& candidate) {
  const auto found = std::ranges::find(result.rows, candidate, &Row::candidate);
  if (found == result.rows.end()) throw Error("no such row");
  return *found;
}

constexpr SearchLimits ample_limits{.global_batch = 512, .workers = 1, .cores = 16};

inline Candidate folded(int ranks, int workers = 1) {
  return {.placement = {.ranks_per_device = ranks, .colocation = Colocation::folded},
          .workers = workers};
}
inline Candidate processes(int ranks, int sm_percent = 0, int workers = 1) {
  return {.placement = {.ranks_per_device = ranks, .sm_percent = sm_percent}, .workers = workers};
}

}  // namespace tandem
