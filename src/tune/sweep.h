#pragma once

#include <vector>

#include "tune/search.h"

namespace tandem {

/// The grid, measured, and what the search lost against it.
struct Sweep {
  std::vector<Row> rows{};
  std::size_t best = 0;  ///< of the grid
  /// The search's choice and the grid's best again, in turns; one row where they are the same.
  std::vector<Row> again{};
  /// The share of the best's training throughput that the choice lacks; 0 where it lacks none.
  double regret = 0.0;
  double spread = 0.0;  ///< the larger one of the two
};

/// Every candidate: rank counts x folded, or processes x SM shares, x the config's loader workers,
/// twice as many and so on, as far as there are cores: the search's steps, too.
std::vector<Candidate> whole_grid(const SearchLimits& limits, const TuneResult& searched);

/// Measures the grid once each, however long it takes, and then the search's choice against the
/// best. A placement gets no more workers once its loader keeps up within a hundredth, but for the
/// choice's.
Sweep run_sweep(const SearchLimits& limits, const TuneResult& searched, const Measure& measure);

}  // namespace tandem
