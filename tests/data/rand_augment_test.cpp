#include "data/augment/rand_augment.h"

#include <array>
#include <map>

#include "data/augment/affine.h"
#include "data/augment/color_ops.h"
#include "data/augment/resample.h"
#include "data/augment/sharpness.h"
#include "data/augment/transform.h"
#include "data/levels.h"

namespace tandem::testing {
namespace {

TEST(RandAugment, MagnitudesAreLinear) {
  using enum AugmentOp;
  for (int bin = 0; bin < 31; ++bin) {
    const double part = bin / 30.0;
    const auto magnitude = [&](AugmentOp op) { return augment_magnitude(op, bin, 331, 662); };
    for (const AugmentOp op : {shear_x, shear_y}) EXPECT_NEAR(magnitude(op), 0.3 * part, 1e-7);
    for (const AugmentOp op : {brightness, color, contrast, sharpness}) {
      EXPECT_NEAR(magnitude(op), 0.9 * part, 1e-6);
    }
    EXPECT_NEAR(magnitude(translate_x), 300.0 * part, 1e-4);
    EXPECT_NEAR(magnitude(translate_y), 150.0 * part, 1e-4);
    EXPECT_NEAR(magnitude(rotate), 30.0 * part, 1e-5);
    EXPECT_NEAR(magnitude(solarize), 1.0 - part, 1e-6);
    EXPECT_EQ(magnitude(posterize), std::round(8.0 - 4.0 * part));
    for (const AugmentOp op : {identity, autocontrast, equalize}) EXPECT_EQ(magnitude(op), 0.0);
  }
}

TEST(RandAugment, DrawsAllOperationsAlikeAndHalfOfTheSigns) {
  RandomStream random(5);
  std::map<AugmentOp, int> counts;
  std::map<AugmentOp, int> negatives;
  constexpr int draws = 42000;
  for (int i = 0; i < draws; ++i) {
    const DrawnOp drawn = draw_augment_op(9, 64, 48, random);
    ++counts[drawn.op];
    if (drawn.magnitude < 0.0) ++negatives[drawn.op];
    ASSERT_EQ(std::abs(drawn.magnitude), augment_magnitude(drawn.op, 9, 64, 48));
  }
  ASSERT_EQ(counts.size(), 14U);
  double chi_squared = 0.0;
  for (const auto& [op, count] : counts)
    chi_squared += (count - 3000.0) * (count - 3000.0) / 3000.0;
  EXPECT_LT(chi_squared, 34.5);  // 13 degrees of freedom: one in a thousand
  ASSERT_EQ(negatives.size(), 9U);
  for (const auto& [op, count] : negatives) {
    EXPECT_TRUE(op >= AugmentOp::shear_x && op <= AugmentOp::sharpness);
    EXPECT_NEAR(count / static_cast<double>(counts[op]), 0.5, 0.04);
  }
}

/// What an operation with a magnitude is, by the functions that have tests of their own.
Image applied_by_hand(const DrawnOp& drawn, const Image& image) {
  using enum AugmentOp;
  const double m = drawn.magnitude;
  const double degrees = std::atan(m) * 180.0 / 3.14159265358979323846;
  const int h = image.height;
  const int w = image.width;
  Image out = image;
  const Image& in = image;
  switch (drawn.op) {
    case identity:
      break;
    case shear_x:
      transform_affine(in, shear_map(h, w, degrees, 0.0), out);
      break;
    case shear_y:
      transform_affine(in, shear_map(h, w, 0.0, degrees), out);
      break;
    case translate_x:
      translate(in, static_cast<int>(std::trunc(m)), 0, out);
      break;
    case translate_y:
      translate(in, 0, static_cast<int>(std::trunc(m)), out);
      break;
    case rotate:
      transform_affine(in, rotation_map(m), out);
      break;
    case brightness:
      adjust_brightness(out, 1.0 + m);
      break;
    case color:
      adjust_saturation(out, 1.0 + m);
      break;
    case contrast:
      adjust_contrast(out, 1.0 + m);
      break;
    case sharpness:
      adjust_sharpness(in, 1.0 + m, out);
      break;
    case posterize:
      tandem::posterize(out, static_cast<int>(m));
      break;
    case solarize:
      tandem::solarize(out, static_cast<float>(255.0 * m));
      break;
    case autocontrast:
      tandem::autocontrast(out);
      break;
    case equalize:
      tandem::equalize(out);
      break;
  }
  return out;
}

TEST(RandAugment, AppliesWhatItDrawsOneAfterTheOther) {
  for (const int channels : {1, 3}) {
    const Image image = pattern(23, 31, channels);
    for (std::uint64_t stream = 0; stream < 300; ++stream) {
      const int ops = static_cast<int>(stream % 4);
      const int bin = static_cast<int>(stream % 31);
      Image out = image;
      RandomStream random(stream);
      rand_augment({.ops = ops, .magnitude = bin}, out, random);
      Image wanted = image;
      RandomStream same(stream);
      for (int i = 0; i < ops; ++i) {
        wanted = applied_by_hand(draw_augment_op(bin, 23, 31, same), wanted);
      }
      ASSERT_EQ(out.pixels, wanted.pixels) << stream;
      ASSERT_EQ(out.height, 23);
      ASSERT_EQ(random.next_u64(), same.next_u64());
    }
  }
}

TransformOptions options(int channels) {
  TransformOptions made;
  made.size = 20;
  made.channels = channels;
  made.mean.assign(static_cast<std::size_t>(channels), 0.25F);
  made.deviation.assign(static_cast<std::size_t>(channels), 0.5F);
  made.train = made.flip = true;
  made.rand_augment = {.ops = 2, .magnitude = 9};
  return made;
}

std::vector<float> transformed(const TransformOptions& made, const Image& image, int sample) {
  const Transform transform(made);
  std::vector<float> out(static_cast<std::size_t>(transform.output_elements()));
  RandomStream random = augmentation_stream(1, 2, sample);
  DecodedImage source(image);
  transform.apply(source, random, out.data());
  return out;
}

/// A 20 x 20 picture seen through a window, mirrored or not; black outside. Gray is repeated.
Image window_of(const Image& image, const PixelRect& window, bool mirrored, int channels) {
  Image cut{20, 20, channels, {}};
  for (int y = 0; y < 20; ++y) {
    for (int x = 0; x < 20; ++x) {
      for (int c = 0; c < channels; ++c) {
        const int row = y + window.top;
        const int column = (mirrored ? 19 - x : x) + window.left;
        const bool inside = row >= 0 && row < image.height && column >= 0 && column < image.width;
        const int level = inside ? at(image, row, column, image.channels == 1 ? 0 : c) : 0;
        cut.pixels.push_back(static_cast<std::uint8_t>(level));
      }
    }
  }
  return cut;
}

void expect_normalised(const std::vector<float>& out, const Image& image, int sample) {
  ASSERT_EQ(out.size(), image.pixels.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(out[i]), (image.pixels[i] / 255.0 - 0.25) / 0.5, 2e-6)
        << sample;
  }
}

TEST(RandAugment, ComesAfterCropAndFlipAndBeforeNormalisation) {
  for (const auto& [from, to] : {std::pair{3, 3}, {1, 1}, {1, 3}}) {
    const Image image = pattern(20, 20, from);
    TransformOptions made = options(to);
    made.crop_padding = 3;
    for (int sample = 0; sample < 60; ++sample) {
      RandomStream random = augmentation_stream(1, 2, sample);
      const PixelRect crop = random_crop(20, 20, 20, 3, random);
      const bool mirrored = random.uniform() < 0.5F;
      Image wanted = window_of(image, crop, mirrored, to);
      rand_augment(made.rand_augment, wanted, random);
      expect_normalised(transformed(made, image, sample), wanted, sample);
    }
  }
}

TEST(RandAugment, SeesBytesOfARandomResizedCrop) {
  const Image image = pattern(50, 34, 3);
  TransformOptions made = options(3);
  made.random_resized_crop = true;
  for (int sample = 0; sample < 60; ++sample) {
    RandomStream random = augmentation_stream(1, 2, sample);
    const PixelRect box = random_resized_crop(50, 34, made.ranges, random);
    const bool mirrored = random.uniform() < 0.5F;
    Image wanted =
        window_of(resize(part_of(view_of(image), box), 20, 20), {0, 0, 20, 20}, mirrored, 3);
    rand_augment(made.rand_augment, wanted, random);
    expect_normalised(transformed(made, image, sample), wanted, sample);
  }
}

TEST(RandAugment, ComesBeforeErasing) {
  const Image image = pattern(20, 20, 3);
  TransformOptions made = options(3);
  made.random_erasing = 1.0;
  for (int sample = 0; sample < 20; ++sample) {
    const std::vector<float> erased = transformed(made, image, sample);
    made.random_erasing = 0.0;
    const std::vector<float> whole = transformed(made, image, sample);
    made.random_erasing = 1.0;
    int differences = 0;
    for (std::size_t i = 0; i < whole.size(); ++i) {
      if (erased[i] == whole[i]) continue;
      ASSERT_EQ(erased[i], 0.0F);
      ++differences;
    }
    EXPECT_GT(differences, 0);
  }
}

TEST(RandAugment, EvaluationDoesWithout) {
  const Image image = pattern(20, 20, 3);
  TransformOptions made = options(3);
  made.train = false;
  for (int sample = 0; sample < 10; ++sample) {
    expect_normalised(transformed(made, image, sample), image, sample);
  }
}

}  // namespace
}  // namespace tandem::testing
