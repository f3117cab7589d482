#pragma once

#include <cstdint>

#include "data/image.h"

namespace tandem {

/// The bytes of a raw sample: what is left of an image's way to the model's input when all that
/// needs a processor is done (decoding, resizing, RandAugment).
struct PixelFormat {
  int height = 0;
  int width = 0;
  int channels = 0;
  /// The pixels are the data set's whole image, and the crop is still to be cut from them. Else
  /// they are the crop.
  bool whole = false;

  std::int64_t bytes() const { return std::int64_t{height} * width * channels; }
  bool operator==(const PixelFormat&) const = default;
};

/// What is still to be done with a raw sample. Output pixel (y, x) of size x size ones is the pixel
/// (top + y, left + x) of the sample, black (0) outside of it, or, mirrored, (top + y, left + size
/// - 1 - x); then it is normalised, then those in `erased` become 0, then the sample is mixed with
/// its partner. Devices read these records as they are.
struct alignas(16) SampleEdit {
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t mirrored = 0;  ///< 0 or 1
  PixelRect erased;           ///< of the output; without extents: nothing
};

/// Mix (data/augment/mix.h) as devices read it, the same for all samples of a batch.
struct alignas(16) MixEdit {
  float own = 1.0F;        ///< weight of a sample's own pixels; not with a box
  float partners = 0.0F;   ///< of its partner's
  std::int32_t boxed = 0;  ///< 1: the partner is seen in `box`, alone, and nowhere else
  PixelRect box;           ///< of the output
};

}  // namespace tandem
