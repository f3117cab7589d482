#include "graph/device_batch.h"

#include "device/memory.h"
#include "tensor/convert.h"

namespace tandem {

DeviceBatch::DeviceBatch(AnyContext& context, const Graph& graph, Precision precision,
                         std::int64_t size, std::uint64_t seed) {
  const Batch batch(graph, size, seed);
  const std::size_t pixel_bytes = batch.pixels.size() * sizeof(float);
  const Arena wide(context, pixel_bytes, "a test");
  copy_to_device(context, batch.pixels.data(), pixel_bytes, wide.data());
  images_memory_ = Arena(context, pixel_bytes, "a test");
  images_ = Tensor(images_memory_.data(), batch.image_shape, activation_dtype(precision));
  convert(context, Tensor(wide.data(), batch.image_shape), images_);
  synchronize(context);
  const std::size_t label_bytes = batch.labels.size() * sizeof(std::int32_t);
  labels_memory_ = Arena(context, label_bytes, "a test");
  copy_to_device(context, batch.labels.data(), label_bytes, labels_memory_.data());
  targets_ = {Tensor(labels_memory_.data(), {size}, DType::i32)};
}

}  // namespace tandem
