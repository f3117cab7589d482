#include "data/augment/rand_augment.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.h"
#include "data/augment/affine.h"
#include "data/augment/color_ops.h"
#include "data/augment/sharpness.h"
#include "data/fused.h"

namespace tandem {
namespace {

/// torch.linspace(first, last, augment_bins)[bin]: counted from the nearer end, in float32, with a
/// fused multiply-add as torch has it on processors with one.
double linear(double first, double last, int bin) {
  const auto begin = static_cast<float>(first);
  const auto end = static_cast<float>(last);
  constexpr int steps = augment_bins - 1;
  const float step = (end - begin) / static_cast<float>(steps);
  if (bin < augment_bins / 2) {
    return static_cast<double>(fused(step, static_cast<float>(bin), begin));
  }
  return static_cast<double>(fused(-step, static_cast<float>(steps - bin), end));
}

double degrees_of_tangent(double tangent) {
  return std::atan(tangent) * (180.0 / std::numbers::pi);
}

}  // namespace

bool has_sign(AugmentOp op) { return op >= AugmentOp::shear_x && op <= AugmentOp::sharpness; }

double augment_magnitude(AugmentOp op, int bin, int height, int width) {
  TANDEM_CHECK(bin >= 0 && bin < augment_bins, "magnitude {} of {}", bin, augment_bins);
  switch (op) {
    case AugmentOp::shear_x:
    case AugmentOp::shear_y:
      return linear(0.0, 0.3, bin);
    case AugmentOp::translate_x:
      return linear(0.0, 150.0 / 331.0 * width, bin);
    case AugmentOp::translate_y:
      return linear(0.0, 150.0 / 331.0 * height, bin);
    case AugmentOp::rotate:
      return linear(0.0, 30.0, bin);
    case AugmentOp::brightness:
    case AugmentOp::color:
    case AugmentOp::contrast:
    case AugmentOp::sharpness:
      return linear(0.0, 0.9, bin);
    case AugmentOp::posterize:
      return 8.0 - std::nearbyint(bin / 7.5);  // 8 bits to 4
    case AugmentOp::solarize:
      return linear(1.0, 0.0, bin);
    case AugmentOp::identity:
    case AugmentOp::autocontrast:
    case AugmentOp::equalize:
      return 0.0;
  }
  throw Error("unknown augmentation");
}

DrawnOp draw_augment_op(int bin, int height, int width, RandomStream& random) {
  const auto op = static_cast<AugmentOp>(random.below(augment_op_count));
  const double magnitude = augment_magnitude(op, bin, height, width);
  const bool negative = has_sign(op) && random.uniform() < 0.5F;
  return {op, negative ? -magnitude : magnitude};
}

void apply_augment_op(const DrawnOp& drawn, Image& image, Image& scratch) {
  const double magnitude = drawn.magnitude;
  const auto move = [&](const AffineMap& map) {
    transform_affine(image, map, scratch);
    std::swap(image, scratch);
  };
  switch (drawn.op) {
    case AugmentOp::identity:
      return;
    case AugmentOp::shear_x:
      return move(shear_map(image.height, image.width, degrees_of_tangent(magnitude), 0.0));
    case AugmentOp::shear_y:
      return move(shear_map(image.height, image.width, 0.0, degrees_of_tangent(magnitude)));
    case AugmentOp::translate_x:
      translate(image, static_cast<int>(magnitude), 0, scratch);
      return std::swap(image, scratch);
    case AugmentOp::translate_y:
      translate(image, 0, static_cast<int>(magnitude), scratch);
      return std::swap(image, scratch);
    case AugmentOp::rotate:
      return move(rotation_map(magnitude));
    case AugmentOp::brightness:
      return adjust_brightness(image, 1.0 + magnitude);
    case AugmentOp::color:
      return adjust_saturation(image, 1.0 + magnitude);
    case AugmentOp::contrast:
      return adjust_contrast(image, 1.0 + magnitude);
    case AugmentOp::sharpness:
      adjust_sharpness(image, 1.0 + magnitude, scratch);
      return std::swap(image, scratch);
    case AugmentOp::posterize:
      return posterize(image, static_cast<int>(magnitude));
    case AugmentOp::solarize:
      return solarize(image, static_cast<float>(255.0 * magnitude));
    case AugmentOp::autocontrast:
      return autocontrast(image);
    case AugmentOp::equalize:
      return equalize(image);
  }
  throw Error("unknown augmentation");
}

void rand_augment(const RandAugmentOptions& options, Image& image, RandomStream& random) {
  Image scratch;
  for (int i = 0; i < options.ops; ++i) {
    apply_augment_op(draw_augment_op(options.magnitude, image.height, image.width, random), image,
                     scratch);
  }
}

}  // namespace tandem
