#pragma once

#include "train/file_patience.h"

namespace tandem {

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
          .timeout_seconds = data_patience(data, communicator).seconds};
}

}  // namespace tandem
