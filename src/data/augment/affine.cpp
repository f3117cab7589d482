#include "data/augment/affine.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numbers>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

double radians(double degrees) { return degrees * (std::numbers::pi / 180.0); }

/// Inverse of a rotation and shears about (center_x, center_y), in torchvision's order of
/// operations (_get_inverse_affine_matrix), on which the last bit depends.
AffineMap inverse_map(double center_x, double center_y, double degrees, double shear_x_degrees,
                      double shear_y_degrees) {
  const double angle = radians(degrees);
  const double shear_y = radians(shear_y_degrees);
  const double tangent_x = std::tan(radians(shear_x_degrees));
  const double a = std::cos(angle - shear_y) / std::cos(shear_y);
  const double b = -(a * tangent_x + std::sin(angle));
  const double c = std::sin(angle - shear_y) / std::cos(shear_y);
  const double d = std::cos(angle) - c * tangent_x;
  return {{d, -b, center_x - d * center_x - -b * center_y},
          {-c, a, center_y - -c * center_x - a * center_y}};
}

/// One of the two coordinates, in float32 as torchvision computes it: a map onto -1..1 (its grid),
/// from there to pixels (grid_sample), each step rounded.
class Coordinate {
 public:
  Coordinate(const std::array<double, 3>& map, int extent)
      : half_(static_cast<float>(extent) / 2.0F),
        of_x_(static_cast<float>(map[0]) / half_),
        of_y_(static_cast<float>(map[1]) / half_),
        shift_(static_cast<float>(map[2]) / half_) {}

  /// `x` and `y` from the image's centre.
  float at(float x, float y) const {
    const float grid = (x * of_x_ + y * of_y_) + shift_;
    return nearest((grid + 1.0F) * half_ - 0.5F);
  }

  /// The same as a whole number; -1 or `extent` where it is further outside.
  std::int32_t clamped_at(float x, float y, std::int32_t extent) const {
    return static_cast<std::int32_t>(std::clamp(at(x, y), -1.0F, static_cast<float>(extent)));
  }

 private:
  /// The nearest whole number, ties to the even one: where floats of this size have no fractions.
  static float nearest(float value) {
    constexpr float whole = 0x1.8p23F;
    return (value + whole) - whole;
  }

  float half_;
  float of_x_;
  float of_y_;
  float shift_;
};

void prepare(const Image& source, Image& out) {
  TANDEM_CHECK(&source != &out, "an image is not moved in place");
  TANDEM_CHECK((source.height + std::int64_t{1}) * (source.width + std::int64_t{1}) <=
                   std::numeric_limits<std::int32_t>::max(),
               "{}x{} pixels cannot be counted", source.height, source.width);
  out.height = source.height;
  out.width = source.width;
  out.channels = source.channels;
  out.pixels.resize(source.pixels.size());
}

/// Where in a source of height x width the pixels of the result's row y lie, counted in pixels; -1
/// for outside.
void find_places(const Coordinate source_x, const Coordinate source_y, float y, std::int32_t height,
                 std::int32_t width, std::int32_t* __restrict places) {
  const float middle = 0.5F * static_cast<float>(width - 1);
  for (std::int32_t i = 0; i < width; ++i) {
    const float x = static_cast<float>(i) - middle;
    const std::int32_t row = source_y.clamped_at(x, y, height);
    const std::int32_t column = source_x.clamped_at(x, y, width);
    // No short cuts: the loop is to have no branches.
    const bool outside = (row < 0) | (row >= height) | (column < 0) | (column >= width);
    places[i] = outside ? -1 : row * width + column;
  }
}

/// The pixels at `places` (counted in pixels), black where a place is negative.
template <int channels>
void gather(const std::uint8_t* pixels, const std::vector<std::int32_t>& places,
            std::uint8_t* out) {
  constexpr std::uint8_t black[channels]{};
  for (const std::int32_t place : places) {
    std::memcpy(out, place < 0 ? black : pixels + std::ptrdiff_t{place} * channels, channels);
    out += channels;
  }
}

}  // namespace

AffineMap shear_map(int height, int width, double x_degrees, double y_degrees) {
  return inverse_map(-0.5 * width, -0.5 * height, 0.0, x_degrees, y_degrees);
}

AffineMap rotation_map(double degrees) {
  double positive = std::fmod(degrees, 360.0);
  if (positive < 0.0) positive += 360.0;
  return inverse_map(0.0, 0.0, -positive, 0.0, 0.0);
}

void transform_affine(const Image& source, const AffineMap& map, Image& out) {
  prepare(source, out);
  const Coordinate source_x(map.x, source.width);
  const Coordinate source_y(map.y, source.height);
  std::vector<std::int32_t> places(static_cast<std::size_t>(source.width));
  std::uint8_t* row = out.pixels.data();
  for (int i = 0; i < source.height; ++i) {
    const float y = static_cast<float>(i) - 0.5F * static_cast<float>(source.height - 1);
    find_places(source_x, source_y, y, source.height, source.width, places.data());
    if (source.channels == 3) {
      gather<3>(source.pixels.data(), places, row);
    } else {
      gather<1>(source.pixels.data(), places, row);
    }
    row += std::ptrdiff_t{source.width} * source.channels;
  }
}

void translate(const Image& source, int right, int down, Image& out) {
  prepare(source, out);
  const std::ptrdiff_t stride = std::ptrdiff_t{source.width} * source.channels;
  const std::ptrdiff_t shift =
      std::clamp<std::ptrdiff_t>(std::ptrdiff_t{right} * source.channels, -stride, stride);
  const std::ptrdiff_t kept = stride - std::abs(shift);
  for (int y = 0; y < source.height; ++y) {
    std::uint8_t* row = out.pixels.data() + y * stride;
    const int from = y - down;
    if (from < 0 || from >= source.height) {
      std::fill_n(row, stride, std::uint8_t{0});
      continue;
    }
    const std::uint8_t* in = source.pixels.data() + from * stride;
    std::copy_n(in + std::max<std::ptrdiff_t>(-shift, 0), kept,
                row + std::max<std::ptrdiff_t>(shift, 0));
    std::fill_n(shift > 0 ? row : row + kept, stride - kept, std::uint8_t{0});
  }
}

}  // namespace tandem
