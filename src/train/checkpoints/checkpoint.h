#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "graph/host_store.h"
#include "graph/parameters.h"
#include "optim/optimizer.h"
#include "train/checkpoints/safetensors.h"
#include "train/checkpoints/training_position.h"
#include "train/step/weight_average.h"

namespace tandem {

/// What a checkpoint holds, as it is when this is made: weights, optimizer state, position and,
/// unless null, the weights' moving average. All in host memory of its own, so that training can go
/// on, and end, while it is written.
class CheckpointImage {
 public:
  CheckpointImage(const ParameterStore& store, Optimizer& optimizer,
                  const TrainingPosition& position, WeightAverage* average = nullptr);

  /// As one checksummed safetensors file (weights under torchvision's names and in its layouts),
  /// whole or not at all. On any thread.
  void write(const std::filesystem::path& path) const;

 private:
  struct State {
    std::string name;
    HostTensor values;
  };

  HostStore weights_;
  std::optional<HostStore> average_;
  std::vector<State> states_;
  std::int64_t batches_;
  SafetensorsMetadata metadata_;
};

/// Restores what CheckpointImage::write() wrote, into a model and an optimizer of the same layout.
/// Throws InputError where the file is damaged, is no checkpoint, or is of another model or
/// optimizer, where other parameters are trained, or where `expected` has another model, seed,
/// global batch, number of samples, or other labels. An `average` that the file lacks starts from
/// the file's weights.
TrainingPosition load_checkpoint(const std::filesystem::path& path, ParameterStore& store,
                                 Optimizer& optimizer, const TrainingPosition& expected,
                                 WeightAverage* average = nullptr);

/// Whether a checkpoint was made with classes of other names than those of this fingerprint.
/// Weights that tell nothing of their classes were not.
bool has_other_classes(const SafetensorsFile& file, std::uint64_t classes);

}  // namespace tandem
