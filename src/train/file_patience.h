#pragma once

#include "base/standstill.h"
#include "data/data_config.h"
#include "parallel/announced_work.h"
#include "parallel/communicator.h"

namespace tandem {

/// How long a rank's data may stand still, as they are opened and as samples are read.
inline FilePatience data_patience(const DataConfig& data, const Communicator& communicator) {
  return {.seconds = in_turn(data.timeout_seconds, communicator.rank()),
          .key = "data.timeout_seconds"};
}

/// The same of a run's folder, checkpoints and weights: RunConfig::checkpoint_timeout_seconds.
inline FilePatience run_patience(double timeout_seconds, const Communicator& communicator) {
  return {.seconds = in_turn(timeout_seconds, communicator.rank()),
          .key = "checkpoint.timeout_seconds"};
}

}  // namespace tandem
