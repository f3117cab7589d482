#pragma once

#include "data/data_config.h"
#include "parallel/communicator.h"

namespace tandem {

/// DataLoader::Options::timeout_seconds of this rank. Rank 0's is over first: where the data of all
/// hang, as on a network's disk, it says so and has ended the job before another one speaks.
inline double data_patience(const DataConfig& data, const Communicator& communicator) {
  constexpr double turn = 4.0;
  if (data.timeout_seconds == 0.0 || communicator.rank() == 0) return data.timeout_seconds;
  return data.timeout_seconds + turn;
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
          .timeout_seconds = data_patience(data, communicator)};
}

}  // namespace tandem
