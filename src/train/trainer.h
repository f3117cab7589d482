#pragma once

#include <memory>

#include "parallel/communicator.h"
#include "train/checkpoints/run_checkpoints.h"
#include "train/run_config.h"

namespace tandem {

enum class TrainOutcome {
  finished,  ///< all steps done, or stopped early by train.early_stop_*
  stopped,   ///< a signal asked for it; a checkpoint of the last step was written
};

/// Runs a whole training run on the ranks of a communicator: data, steps, evaluations, checkpoints
/// and records. One object, one run.
class Trainer {
 public:
  /// Collective. Opens the data, builds the model and restores a checkpoint where asked. Throws
  /// InputError for whatever of the run file or the data is wrong, before anything is written.
  Trainer(const RunConfig& config, const RunPlace& place, Communicator& communicator);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Collective. Throws Error where the loss is not finite or replicas differ; what was written
  /// before stays. Memory that lacks behind the first step is SystemError, since it was enough for
  /// what the config asks for.
  TrainOutcome run();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace tandem
