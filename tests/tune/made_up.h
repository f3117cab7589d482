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
  /// Of a run's time, for what a share with borrowed kernels chooses in each.
  double borrowing_seconds = 0.0;
  bool on_gpus = true;
  int devices = 1;
  int hosts = 1;

  double now = 0.0;
  std::vector<Candidate> runs{};

  Measurement measure(const Candidate& candidate, double seconds) {
    const bool borrows = borrowing_seconds > 0.0 && candidate.placement.sm_percent > 0;
    const double choosing = borrows ? borrowing_seconds : 0.0;
    const double takes =
        (runs.empty() ? first_run_seconds : run_seconds) + more_seconds(candidate) + choosing;
    runs.push_back(candidate);
    if (takes > seconds) {
      now += seconds;
      return {.problem = "took too long", .timed_out = true};
    }
    now += takes;
    if (const std::string why = problem(candidate); !why.empty()) {
      return {.problem = why, .does_not_fit = why.find("memory") != std::string::npos};
    }
    const double sign = runs.size() % 2 == 0 ? 1.0 : -1.0;
    const double alone = one_batch(candidate) * (1.0 + sign * noise);
    const double fed = loader(candidate.workers * processes_of(candidate.placement));
    return {.rates = Rates{.training = std::min(alone, fed),
                           .one_batch = alone,
                           .loader = fed,
                           .borrowed_kernels = borrows},
            .plan_seconds = choosing,
            .device = "made-up GPU",
            .devices = devices,
            .hosts = hosts,
            .on_gpus = on_gpus};
  }

  TuneResult search(const SearchLimits& limits) {
    return search_placement(
        limits, [this](const Candidate& candidate, double s) { return measure(candidate, s); },
        [this] { return now; });
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
