#pragma once

#include "base/philox.h"
#include "data/image.h"

namespace tandem {

/// The operations of RandAugment, in the order of torchvision's table.
enum class AugmentOp {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  autocontrast,
  equalize
};
inline constexpr int augment_op_count = 14;

/// Magnitudes are counted in bins: 0 to augment_bins - 1.
inline constexpr int augment_bins = 31;

struct RandAugmentOptions {
  int ops = 0;        ///< for each image, one after the other; 0: none
  int magnitude = 9;  ///< bin of all of them
};

/// An operation with its strength: the tangent of the shear, pixels right or down (cut to whole
/// ones), degrees counterclockwise, factor - 1 of the four adjustments, bits that posterize keeps,
/// threshold of solarize as a share of 255; 0 for the others.
struct DrawnOp {
  AugmentOp op = AugmentOp::identity;
  double magnitude = 0.0;

  bool operator==(const DrawnOp&) const = default;
};

/// Whether the magnitude is negated half of the time.
bool has_sign(AugmentOp op);

/// The magnitude of `op` in `bin`, before its sign, for an image of these extents: linear from bin
/// 0 to bin 30, in float32. (torch's own tables differ in the last place between processors with
/// and without fused multiply-adds; these are those of processors with them.)
double augment_magnitude(AugmentOp op, int bin, int height, int width);

/// Draws an operation, each with the same probability, then its sign where it has one.
DrawnOp draw_augment_op(int bin, int height, int width, RandomStream& random);

/// Applies one operation. `scratch` is memory for it; its contents are lost.
void apply_augment_op(const DrawnOp& drawn, Image& image, Image& scratch);

/// RandAugment (Cubuk et al. 2020) on an image of 1 or 3 channels: torchvision.transforms.v2's for
/// uint8 tensors, with 31 bins, nearest interpolation and black around. One after the other, each
/// operation is drawn and applied.
void rand_augment(const RandAugmentOptions& options, Image& image, RandomStream& random);

}  // namespace tandem
