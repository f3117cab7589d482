#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "optim/step_control.h"
#include "parallel/communicator.h"
#include "train/early_stop.h"

namespace tandem {

/// How far a run is, and what it must have in common with the run that goes on from here.
struct TrainingPosition {
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t steps_per_epoch = 0;
  std::int64_t batches = 0;         ///< forward passes in training, torch's num_batches_tracked
  double best_top1 = -1.0;          ///< best evaluation so far; negative: none
  std::int64_t best_step = 0;       ///< where that was; 0: none, or not known
  std::int64_t evaluated_step = 0;  ///< where the newest evaluation was; 0: none
  EarlyStopState early_stop{};
  std::string early_stop_metric{};  ///< what early_stop is of; of another metric it starts anew
  std::optional<LossScale> loss_scale{};  ///< where losses are scaled
  // Decide the order of samples, which a resumed run keeps:
  std::uint64_t seed = 0;
  std::int64_t global_batch = 0;
  std::int64_t samples = 0;  ///< in the training set
  /// Fingerprints (data/fingerprint.h) of the training set; nothing where they are not known.
  std::optional<std::uint64_t> classes{};
  std::optional<std::uint64_t> labels{};
  std::string model;

  std::int64_t epoch() const { return step / steps_per_epoch; }
  /// Counted from 1, as the step is.
  std::int64_t epoch_of(std::int64_t number) const { return (number - 1) / steps_per_epoch + 1; }
  std::int64_t step_in_epoch() const { return step % steps_per_epoch; }
};

/// Collective: rank 0's steps and evaluations to all ranks, which have the rest from the run file.
void share_reached(TrainingPosition& position, Communicator& communicator);

}  // namespace tandem
