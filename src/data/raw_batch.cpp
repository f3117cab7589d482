#include "data/raw_batch.h"

#include <new>
#include <type_traits>

namespace tandem {
namespace {

constexpr std::size_t alignment = 256;

/// Takes `bytes` from the end on, and returns where they begin.
std::size_t append(std::size_t& end, std::size_t bytes) {
  const std::size_t begin = (end + alignment - 1) / alignment * alignment;
  end = begin + bytes;
  return begin;
}

}  // namespace

RawBatchLayout::RawBatchLayout(const PixelFormat& format, int batch, bool mixed)
    : format_(format), batch_(batch), mixed_(mixed) {
  static_assert(std::is_trivially_copyable_v<SampleEdit> && std::is_trivially_copyable_v<MixEdit>);
  TANDEM_CHECK(format.bytes() > 0 && batch >= 1, "a raw batch of {} pictures of {}x{}x{}", batch,
               format.height, format.width, format.channels);
  const auto count = static_cast<std::size_t>(positions());
  append(bytes_, count * static_cast<std::size_t>(format.bytes()));
  edits_at_ = append(bytes_, count * sizeof(SampleEdit));
  labels_at_ = append(bytes_, count * sizeof(std::int32_t));
  if (!mixed) return;
  mix_at_ = append(bytes_, sizeof(MixEdit));
  second_labels_at_ = append(bytes_, count * sizeof(std::int32_t));
  label_weights_at_ = append(bytes_, count * sizeof(float));
}

RawBatchView RawBatchLayout::view(std::byte* memory) const {
  RawBatchView view;
  view.memory = {memory, bytes_};
  view.pixels =
      Tensor(memory, {positions(), format_.height, format_.width, format_.channels}, DType::u8);
  view.edits = reinterpret_cast<SampleEdit*>(memory + edits_at_);
  view.labels = Tensor(memory + labels_at_, {batch_}, DType::i32);
  if (!mixed_) return view;
  view.mix = reinterpret_cast<MixEdit*>(memory + mix_at_);
  view.second_labels = Tensor(memory + second_labels_at_, {batch_}, DType::i32);
  view.label_weights = Tensor(memory + label_weights_at_, {batch_});
  return view;
}

bool RawBatchLayout::fits(const RawBatchView& batch) const {
  return batch.memory.size() == bytes_ && (batch.mix != nullptr) == mixed_ &&
         batch.pixels.shape() ==
             Shape{positions(), format_.height, format_.width, format_.channels} &&
         batch.labels.shape() == Shape{batch_};
}

std::shared_ptr<std::byte> allocate_host(std::size_t bytes) {
  constexpr std::align_val_t align{alignment};
  return {static_cast<std::byte*>(::operator new(bytes, align)),
          [](std::byte* memory) { ::operator delete(memory, align); }};
}

}  // namespace tandem
