#pragma once

#include "data/image.h"

namespace tandem {

/// Away from the blurred image (factor > 1) or towards it: pixel + (1 - factor) * (blurred -
/// pixel), blurred by the 3 x 3 filter of ones with a five in the middle over 13, rounded. The
/// outermost pixels stay as they are, and images of at most two rows or columns. `out` takes the
/// result and keeps its memory where it suffices; it must not be `image`.
/// torchvision.transforms.v2.functional.adjust_sharpness of uint8 tensors, to the bit.
void adjust_sharpness(const Image& image, double factor, Image& out);

}  // namespace tandem
