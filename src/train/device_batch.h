#pragma once

#include "data/data_loader.h"
#include "device/arena.h"
#include "layers/softmax_cross_entropy.h"
#include "tensor/precision.h"

namespace tandem {

/// Brings batches to where a context's kernels read them: their own memory on the CPU, copies on a
/// device, the images in the activations' dtype.
class DeviceBatch {
 public:
  /// Of batches whose images are of this shape (B, height, width, C). The context outlives this.
  DeviceBatch(AnyContext& context, const Shape& images, Precision precision);

  struct View {
    Tensor images;
    Targets targets;
  };
  /// Done with `batch` on return. The view lasts until the following call and is read by what is
  /// enqueued in the context before it.
  View put(const Batch& batch);

 private:
  /// Room on the device for a tensor of the batch, filled with it.
  Tensor copy(const Tensor& host, Arena& arena);

  AnyContext* context_;
  Arena pixels_;  // f32, as they come; these four stay empty on the CPU
  Arena labels_;
  Arena second_labels_;
  Arena weights_;
  Arena rounded_;
  Tensor images_;
};

}  // namespace tandem
