#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "data/augment/sample_edit.h"
#include "tensor/tensor.h"

namespace tandem {

/// A batch whose pictures are bytes yet: a device makes the model's input of them
/// (data/input_cuda.h). All of it lies in one piece of memory, the host's or a device's.
struct RawBatchView {
  std::span<std::byte> memory;  ///< all of it
  /// u8, (B, height, width, channels). Where samples are mixed one more, the partner of the first;
  /// the others' is the sample before them.
  Tensor pixels;
  SampleEdit* edits = nullptr;  ///< one a picture
  MixEdit* mix = nullptr;       ///< null where samples are not mixed
  Tensor labels;                ///< i32, (B)
  Tensor second_labels;         ///< i32, (B), where samples are mixed; else undefined
  Tensor label_weights;         ///< f32, (B), likewise
};

/// Where the parts of a raw batch lie in its memory.
class RawBatchLayout {
 public:
  RawBatchLayout(const PixelFormat& format, int batch, bool mixed);

  const PixelFormat& format() const { return format_; }
  int batch() const { return batch_; }
  /// Pictures, labels and edits: B, or B + 1 where samples are mixed.
  int positions() const { return batch_ + (mixed_ ? 1 : 0); }
  bool mixed() const { return mixed_; }
  std::size_t bytes() const { return bytes_; }

  /// `memory` holds bytes() bytes, 256-byte aligned.
  RawBatchView view(std::byte* memory) const;
  /// Whether the parts of a batch lie as view() says, so that its memory may be copied as a whole.
  bool fits(const RawBatchView& batch) const;

 private:
  PixelFormat format_;
  int batch_;
  bool mixed_;
  std::size_t edits_at_ = 0;
  std::size_t mix_at_ = 0;
  std::size_t labels_at_ = 0;
  std::size_t second_labels_at_ = 0;
  std::size_t label_weights_at_ = 0;
  std::size_t bytes_ = 0;
};

/// Gives host memory of so many bytes, 256-byte aligned: where a device copies from it, memory that
/// it can read while the host goes on (device/pinned_memory.h).
using HostAllocator = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

/// Plain host memory, 256-byte aligned.
std::shared_ptr<std::byte> allocate_host(std::size_t bytes);

}  // namespace tandem
