#pragma once

#include <array>

#include "data/image.h"

namespace tandem {

// Images of 1 or 3 channels moved by an affine map: where a pixel of the result lies in the source,
// the nearest source pixel is taken (ties to the even one), outside of it black. Results have the
// source's extents and go to `out`, which keeps its memory where it suffices and must not be the
// source. These are torchvision.transforms.v2.functional's affine and rotate for uint8 tensors
// (nearest interpolation, no fill), with their float32 coordinates.

/// From the result's pixels to the source's, both counted from the image's centre:
/// source x = x[0] * x + x[1] * y + x[2], and so for y.
struct AffineMap {
  std::array<double, 3> x{1.0, 0.0, 0.0};
  std::array<double, 3> y{0.0, 1.0, 0.0};
};

/// A shear along x and one along y by angles in degrees, about the image's top left corner.
AffineMap shear_map(int height, int width, double x_degrees, double y_degrees);

/// A turn about the centre, counterclockwise.
AffineMap rotation_map(double degrees);

/// The source under a map.
void transform_affine(const Image& source, const AffineMap& map, Image& out);

/// The source moved by `right` and `down` pixels.
void translate(const Image& source, int right, int down, Image& out);

}  // namespace tandem
