#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "graph/parameters.h"
#include "optim/optimizer.h"
#include "optim/step_control.h"
#include "train/checkpoints/safetensors.h"
#include "train/early_stop.h"
#include "train/step/weight_average.h"

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
  std::int64_t step_in_epoch() const { return step % steps_per_epoch; }
};

/// Writes weights (torchvision's names and layouts), optimizer state, position and, unless null,
/// the weights' moving average as one checksummed safetensors file, whole or not at all.
void save_checkpoint(const std::filesystem::path& path, const ParameterStore& store,
                     Optimizer& optimizer, const TrainingPosition& position,
                     WeightAverage* average = nullptr);

/// Restores what save_checkpoint() wrote, into a model and an optimizer of the same layout. Throws
/// InputError where the file is damaged, is no checkpoint, or is of another model or optimizer,
/// where other parameters are trained, or where `expected` has another model, seed, global batch,
/// number of samples, or other labels. An `average` that the file lacks starts from the file's
/// weights.
TrainingPosition load_checkpoint(const std::filesystem::path& path, ParameterStore& store,
                                 Optimizer& optimizer, const TrainingPosition& expected,
                                 WeightAverage* average = nullptr);

/// Whether a checkpoint was made with classes of other names than those of this fingerprint.
/// Weights that tell nothing of their classes were not.
bool has_other_classes(const SafetensorsFile& file, std::uint64_t classes);

}  // namespace tandem
