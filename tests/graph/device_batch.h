#pragma once

#include "device/arena.h"
#include "graph/small_models.h"

namespace tandem {

/// A Batch in a GPU's memory, its images of the precision's type.
class DeviceBatch {
 public:
  DeviceBatch(AnyContext& context, const Graph& graph, Precision precision, std::int64_t size,
              std::uint64_t seed);
  const Tensor& images() const { return images_; }
  const Targets& targets() const { return targets_; }

 private:
  Arena images_memory_;
  Arena labels_memory_;
  Tensor images_;
  Targets targets_;
};

}  // namespace tandem
