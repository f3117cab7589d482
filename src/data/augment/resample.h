#pragma once

#include "data/augment/resize_passes/resize_passes.h"
#include "data/image.h"

namespace tandem {

/// What is wanted of a resized image.
struct ResizeRequest {
  int height = 0;  ///< of the whole result
  int width = 0;
  RealRect box;    ///< what of the source is resized; nothing around it is looked at
  PixelRect part;  ///< what of the result is computed; inside height x width
};

/// Antialiased bilinear resizing: a triangle filter that widens with the reduction, first along
/// rows, then along columns, with 8-bit values between the two and 22-bit fixed-point weights. For
/// whole boxes this is Pillow's Image.resize(BILINEAR) of the cut-out box (src/libImaging/
/// Resample.c) to the bit, which torchvision uses for PIL images. A box with edges inside pixels
/// takes the pixels that it touches, as Pillow's `box` does at an image's edge. Channels 1 or 3.
/// `passes`: one of resize_passes().
Image resize(const ImageView& source, const ResizeRequest& request,
             const ResizePasses& passes = resize_passes().front());

/// The whole image resized.
inline Image resize(const ImageView& source, int height, int width) {
  return resize(source,
                {height, width, whole_of(source.height, source.width), {0, 0, height, width}});
}

}  // namespace tandem
