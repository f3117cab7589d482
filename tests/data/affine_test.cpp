#include "data/augment/affine.h"

#include <numbers>

#include "data/levels.h"

namespace tandem::testing {
namespace {

/// The pixel there, black outside.
int pixel_at(const Image& image, int y, int x, int c) {
  const bool inside = y >= 0 && y < image.height && x >= 0 && x < image.width;
  return inside ? at(image, y, x, c) : 0;
}

/// Whether `level` is the nearest pixel to (y, x); where that lies in the middle of two, either.
bool is_nearest(int level, const Image& image, double y, double x, int c) {
  constexpr double tolerance = 1e-4;
  for (const double dy : {-tolerance, tolerance}) {
    for (const double dx : {-tolerance, tolerance}) {
      const auto row = static_cast<int>(std::floor(y + dy + 0.5));
      const auto column = static_cast<int>(std::floor(x + dx + 0.5));
      if (level == pixel_at(image, row, column, c)) return true;
    }
  }
  return false;
}

const std::vector<Image>& images() {
  static const std::vector<Image> all{pattern(12, 17, 3), pattern(13, 8, 1), pattern(1, 5, 3),
                                      pattern(6, 1, 1)};
  return all;
}

double degrees(double tangent) { return std::atan(tangent) * 180.0 / std::numbers::pi; }

TEST(Affine, ShearsAboutTheTopLeftCorner) {
  for (const Image& image : images()) {
    for (const double tangent : {0.0, 0.01, -0.01, 0.09, -0.09, 0.2, -0.2, 0.3, -0.3}) {
      Image out;
      transform_affine(image, shear_map(image.height, image.width, degrees(tangent), 0.0), out);
      expect_levels(out, [&](int level, int y, int x, int c) {
        return is_nearest(level, image, y, x + tangent * (y + 0.5), c);
      });
      transform_affine(image, shear_map(image.height, image.width, 0.0, degrees(tangent)), out);
      expect_levels(out, [&](int level, int y, int x, int c) {
        return is_nearest(level, image, y + tangent * (x + 0.5), x, c);
      });
    }
  }
}

TEST(Affine, RotatesAboutTheCentre) {
  for (const Image& image : images()) {
    for (const double turn : {0.0, 1.0, -1.0, 9.0, -9.0, 30.0, -30.0, 180.0}) {
      Image out;
      transform_affine(image, rotation_map(turn), out);
      const double sine = std::sin(turn * std::numbers::pi / 180.0);
      const double cosine = std::cos(turn * std::numbers::pi / 180.0);
      expect_levels(out, [&](int level, int y, int x, int c) {
        const double down = y - (image.height - 1) / 2.0;
        const double right = x - (image.width - 1) / 2.0;
        return is_nearest(level, image, sine * right + cosine * down + (image.height - 1) / 2.0,
                          cosine * right - sine * down + (image.width - 1) / 2.0, c);
      });
    }
  }
}

TEST(Affine, RotatesCounterclockwise) {
  const Image image{3, 3, 1, {1, 2, 3, 4, 5, 6, 7, 8, 9}};
  Image out;
  transform_affine(image, rotation_map(90.0), out);
  EXPECT_EQ(out.pixels, (Bytes{3, 6, 9, 2, 5, 8, 1, 4, 7}));
  transform_affine(image, rotation_map(-90.0), out);
  EXPECT_EQ(out.pixels, (Bytes{7, 4, 1, 8, 5, 2, 9, 6, 3}));
}

TEST(Affine, Translates) {
  for (const Image& image : images()) {
    for (const int shift : {0, 1, -1, 3, -3, 8, -8, 100, -100}) {
      Image out;
      translate(image, shift, 0, out);
      expect_levels(out, [&](int level, int y, int x, int c) {
        return level == pixel_at(image, y, x - shift, c);
      });
      translate(image, 0, shift, out);
      expect_levels(out, [&](int level, int y, int x, int c) {
        return level == pixel_at(image, y - shift, x, c);
      });
    }
  }
}

TEST(Affine, OverwritesWhatOutHeld) {
  const Image image = pattern(4, 4, 3);
  Image out = pattern(40, 40, 1);
  translate(image, 9, 0, out);
  EXPECT_EQ(out.pixels, Bytes(48, 0));
  EXPECT_EQ(out.channels, 3);
}

}  // namespace
}  // namespace tandem::testing
