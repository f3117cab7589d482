#pragma once

#include "data/image.h"

namespace tandem {

/// Turns an image upright by its EXIF orientation: 1 as it is, 2 mirrored left-right, 3 turned by
/// 180 degrees, 4 mirrored top-bottom, 5 transposed, 6 to be turned by 90 degrees clockwise,
/// 7 transposed over the other diagonal, 8 to be turned by 90 degrees counter-clockwise.
Image upright(Image image, int orientation);

/// Where a box of a stored image of height x width lies once that is turned upright.
RealRect upright_rect(const RealRect& box, double height, double width, int orientation);

/// The orientation that turns an upright image back into the stored one.
int inverse_orientation(int orientation);

}  // namespace tandem
