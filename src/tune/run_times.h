#pragma once

#include <vector>

#include "tune/candidate.h"

namespace tandem {

/// How long the runs of a search took, and what later ones are expected to take.
class RunTimes {
 public:
  /// `budget`: seconds of the whole search.
  explicit RunTimes(double budget) : budget_(budget) {}

  /// A run that came to its end. `seconds`: that it took in all.
  void add(const Placement& placement, Kernels kernels, double seconds, const Measurement& found);

  /// What a run of the placement took last, but for choosing its kernels, which it would not do
  /// again; of one that has not run, what most take with that. The first run of all fills caches,
  /// so its time says little; before there are two others, a thirtieth of the budget.
  double expected_seconds(const Placement& placement) const;

  /// Whether its kernels are chosen: a later run finds them, whatever it is to do without them.
  bool has_own_kernels(const Placement& placement) const;

 private:
  struct Run {
    Placement placement;
    Kernels kernels;
    double seconds;
    double again;  ///< that it would take with its kernels chosen
  };

  double budget_;
  std::vector<Run> runs_;
};

}  // namespace tandem
