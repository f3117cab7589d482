#pragma once

#include "device/arena.h"
#include "device/memory.h"
#include "graph/small_models.h"

namespace tandem {

/// A batch in a context's memory.
class PlacedBatch {
 public:
  PlacedBatch(AnyContext& context, const Batch& batch)
      : labels_at_(Arena::align(batch.images().bytes())),
        memory_(context, labels_at_ + batch.targets().labels.bytes(), "a batch") {
    const Tensor images = batch.images();
    const Tensor labels = batch.targets().labels;
    images_ = Tensor(memory_.data(), images.shape());
    targets_ = {Tensor(memory_.data() + labels_at_, labels.shape(), DType::i32)};
    copy_to_device(context, images.raw(), images.bytes(), images_.raw());
    copy_to_device(context, labels.raw(), labels.bytes(), targets_.labels.raw());
  }
  const Tensor& images() const { return images_; }
  const Targets& targets() const { return targets_; }

 private:
  std::size_t labels_at_;
  Arena memory_;
  Tensor images_;
  Targets targets_;
};

}  // namespace tandem
