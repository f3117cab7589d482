#pragma once

#include <algorithm>

#include "data/data_config.h"
#include "parallel/communicator.h"

namespace tandem {

/// DataLoader::Options::timeout_seconds of a rank. Where the data of several hang, as on a
/// network's disk, rank 0's is over first, and the others' one after the other: one says so, and
/// has ended the job before the next one does.
inline double data_patience(double timeout_seconds, int rank) {
  constexpr double first_turn = 2.0;
  constexpr double turn = 0.25;
  constexpr int turns = 24;
  if (timeout_seconds == 0.0 || rank == 0) return timeout_seconds;
  return timeout_seconds + first_turn + turn * std::min(rank - 1, turns);
}

/// How an evaluation reads its samples.
struct EvaluationLoading {
  int workers = 1;
  bool skip_bad = false;         ///< leave out what cannot be read instead of throwing
  double timeout_seconds = 0.0;  ///< DataLoader::Options
};

inline EvaluationLoading evaluation_loading(const DataConfig& data,
                                            const Communicator& communicator) {
  return {.workers = data.workers,
          .skip_bad = data.skip_bad_samples,
          .timeout_seconds = data_patience(data.timeout_seconds, communicator.rank())};
}

}  // namespace tandem
