#pragma once

#include "data/image.h"

namespace tandem {

/// Antialiased bilinear resizing of `source` to height x width, of which only `part` is computed
/// and returned: a triangle filter that widens with the reduction, first along rows, then along
/// columns, with 8-bit values between the two and 22-bit fixed-point weights. This is Pillow's
/// Image.resize(BILINEAR) (src/libImaging/Resample.c) to the bit, which torchvision uses for PIL
/// images. `part` must lie inside height x width; channels 1 or 3.
Image resize_part(const ImageView& source, int height, int width, const PixelRect& part);

/// The whole of the resized image.
inline Image resize(const ImageView& source, int height, int width) {
  return resize_part(source, height, width, {0, 0, height, width});
}

}  // namespace tandem
