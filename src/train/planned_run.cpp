#include "train/planned_run.h"

#include "base/error.h"
#include "data/datasets/folder_dataset.h"
#include "data/distributed_sampler.h"
#include "graph/fusion.h"
#include "graph/model_file.h"

namespace tandem {
namespace {

/// 0: a folder has none, which training refuses.
std::int64_t classes_of(const DataConfig& data) {
  switch (data.kind) {
    case DataKind::cifar10:
      return 10;
    case DataKind::cifar100:
      return 100;
    case DataKind::folder:
      return static_cast<std::int64_t>(FolderDataset::class_folders(data.train_path).size());
    case DataKind::idx:
    case DataKind::synthetic:
      return data.classes;
  }
  throw Error("unknown kind of data");
}

}  // namespace

Graph run_model(const RunConfig& config, std::int64_t classes) {
  const TransformOptions& input = config.data.transform;
  return load_model(find_model(config.model),
                    {.classes = classes,
                     .channels = input.channels,
                     .size = input.size,
                     .dropout = config.dropout,
                     .stochastic_depth = config.stochastic_depth,
                     .dropout_place = config.dropout_place,
                     .stochastic_depth_place = config.stochastic_depth_place});
}

Graph planned_model(const RunConfig& config) {
  return fuse(run_model(config, classes_of(config.data)));
}

void require_dealt_batch(const RunConfig& config, std::int64_t processes) {
  with_place(config.global_batch_place, [&] {
    DistributedSampler::require_dealt({.global_batch = config.global_batch,
                                       .world = static_cast<int>(processes),
                                       .accumulate = config.accumulate,
                                       .folded = config.folded_ranks});
  });
}

std::int64_t planned_batch(const RunConfig& config, std::int64_t processes) {
  const std::int64_t parts = processes * config.accumulate;
  const bool dealt = config.global_batch % (parts * config.folded_ranks) == 0;
  return dealt ? config.global_batch / parts : 0;
}

}  // namespace tandem
