#pragma once

#include "data/image.h"

namespace tandem {

// Changes of colours in place, on images of 1 or 3 channels. Each is the function of that name of
// torchvision.transforms.v2.functional for uint8 tensors (0.29): float32 arithmetic in its order
// and with its fused multiply-adds, results cut off towards zero, so equal to the bit. (The mean of
// adjust_contrast is exact here; torchvision's is for images up to 256 x 256.)

/// Every value times `factor`, >= 0.
void adjust_brightness(Image& image, double factor);

/// Away from the pixel's gray (factor > 1) or towards it: factor * pixel + (1 - factor) * gray,
/// with gray = floor(0.2989 R + 0.587 G + 0.114 B). Leaves images of one channel alone.
void adjust_saturation(Image& image, double factor);

/// The same with the mean of all pixels' grays in place of the pixel's own.
void adjust_contrast(Image& image, double factor);

/// Keeps the highest `bits` bits of each value, 0 to 8.
void posterize(Image& image, int bits);

/// Inverts the values from `threshold` on.
void solarize(Image& image, float threshold);

/// Stretches each channel's values to 0..255; leaves a channel of a single value alone.
void autocontrast(Image& image);

/// Spreads each channel's values evenly over 0..255 by its histogram, as Pillow's ImageOps.equalize
/// does; leaves a channel alone that has fewer than 255 pixels below its highest value.
void equalize(Image& image);

}  // namespace tandem
