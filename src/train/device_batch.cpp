#include "train/device_batch.h"

#include "device/memory.h"
#include "tensor/convert.h"

namespace tandem {

DeviceBatch::DeviceBatch(AnyContext& context, const Shape& images, Precision precision)
    : context_(&context) {
  if (is_host(context)) return;
  const DType dtype = activation_dtype(precision);
  const auto batch = static_cast<std::size_t>(images[0]);
  pixels_ = Arena(context, Tensor(nullptr, images).bytes(), "a batch");
  labels_ = Arena(context, batch * sizeof(std::int32_t), "a batch's labels");
  second_labels_ = Arena(context, batch * sizeof(std::int32_t), "a batch's labels");
  weights_ = Arena(context, batch * sizeof(float), "a batch's label weights");
  images_ = Tensor(pixels_.data(), images);
  if (dtype == DType::f32) return;
  rounded_ = Arena(context, Tensor(nullptr, images, dtype).bytes(), "a batch");
  images_ = Tensor(rounded_.data(), images, dtype);
}

Tensor DeviceBatch::copy(const Tensor& host, Arena& arena) {
  if (!host.defined()) return {};
  copy_to_device(*context_, host.raw(), host.bytes(), arena.data());
  return {arena.data(), host.shape(), host.dtype()};
}

DeviceBatch::View DeviceBatch::put(const Batch& batch) {
  const Targets targets{
      .labels = batch.labels, .second_labels = batch.second_labels, .weights = batch.label_weights};
  if (is_host(*context_)) return {batch.images, targets};
  const Tensor pixels = copy(batch.images, pixels_);
  if (images_.dtype() != DType::f32) convert(*context_, pixels, images_);
  return {images_,
          {.labels = copy(targets.labels, labels_),
           .second_labels = copy(targets.second_labels, second_labels_),
           .weights = copy(targets.weights, weights_)}};
}

}  // namespace tandem
