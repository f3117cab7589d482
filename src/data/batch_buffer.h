#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/augment/mix.h"
#include "data/augment/transform.h"
#include "data/batch.h"
#include "data/image_source.h"

namespace tandem {

/// The memory of one batch, which samples are loaded into position by position, by several threads
/// at once. Where samples are mixed there is a position B, for the partner of the first one.
class BatchBuffer {
 public:
  BatchBuffer() = default;
  BatchBuffer(const BatchBuffer&) = delete;
  BatchBuffer& operator=(const BatchBuffer&) = delete;
  virtual ~BatchBuffer() = default;

  /// Makes a sample of an image. Throws what reading the image throws.
  virtual void load(std::size_t at, std::int32_t label, ImageSource& source,
                    RandomStream& random) = 0;
  /// One sample over another, with its label.
  virtual void copy(std::size_t from, std::size_t to) = 0;
  /// Samples [begin, end) become zeros with label 0.
  virtual void clear(std::size_t begin, std::size_t end) = 0;
  /// Mixes every sample with its partner, when all are loaded. Raw samples stay as they are, with
  /// the mix beside them.
  virtual void mix(const Mix& mix) = 0;
  /// Points the batch's views here.
  virtual void show_in(Batch& batch) = 0;
};

/// What the buffers of a loader are made for.
struct BatchBufferOptions {
  int batch = 1;
  bool mixed = false;
};

/// A buffer of f32 images.
std::unique_ptr<BatchBuffer> make_float_buffer(const Transform& transform,
                                               const BatchBufferOptions& options);

/// A buffer of raw images, in memory from `allocate`.
std::unique_ptr<BatchBuffer> make_raw_buffer(const Transform& transform, const PixelFormat& format,
                                             const BatchBufferOptions& options,
                                             const HostAllocator& allocate);

}  // namespace tandem
