#pragma once

#include <array>
#include <cstdint>

#include "data/image.h"

namespace tandem {

/// What is wanted of an image that becomes floats.
struct FloatResize {
  int height = 0;
  int width = 0;
  RealRect box;           ///< what of the source is resized; nothing around it is looked at
  bool mirrored = false;  ///< left-right
  /// One a channel: out = value * scale + offset.
  std::array<float, 3> scale{1.0F, 1.0F, 1.0F};
  std::array<float, 3> offset{};
};

/// The filter of resample.h on RGB without rounding to bytes between the passes and after them, so
/// first along columns, which leaves fewer rows for the costlier pass. Before scaling a value is
/// within 0.05 of the real one (resample_short.h says which; the others are within 0.001) and
/// within about one level of Pillow's. Writes height * width * 3 floats (HWC).
void resize_to_floats(const ImageView& source, const FloatResize& wanted, float* out);

/// The same without scaling, rounded once, to the next of the levels 0 to 255. Writes
/// height * width * 3 bytes.
void resize_to_bytes(const ImageView& source, const FloatResize& wanted, std::uint8_t* out);

}  // namespace tandem
