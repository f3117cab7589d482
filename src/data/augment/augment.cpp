#include "data/augment/augment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

int rounded(double value) { return static_cast<int>(std::nearbyint(value)); }

int below(RandomStream& random, int bound) {
  return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
}

double uniform(RandomStream& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random.uniform());
}

}  // namespace

RandomStream augmentation_stream(std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
  const std::uint64_t key = mix64(seed ^ mix64(hash_text("augmentation")));
  return RandomStream(mix64(key + static_cast<std::uint64_t>(epoch)),
                      static_cast<std::uint64_t>(sample));
}

PixelRect random_resized_crop(int height, int width, const CropRanges& ranges,
                              RandomStream& random) {
  const double area = static_cast<double>(height) * width;
  constexpr int tries = 10;
  for (int i = 0; i < tries; ++i) {
    const double target = area * uniform(random, ranges.scale_low, ranges.scale_high);
    const double ratio =
        std::exp(uniform(random, std::log(ranges.ratio_low), std::log(ranges.ratio_high)));
    const int w = rounded(std::sqrt(target * ratio));
    const int h = rounded(std::sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const int top = below(random, height - h + 1);
    const int left = below(random, width - w + 1);
    return {top, left, h, w};
  }
  const double ratio = static_cast<double>(width) / height;
  int w = width;
  int h = height;
  if (ratio < ranges.ratio_low) h = std::clamp(rounded(w / ranges.ratio_low), 1, height);
  if (ratio > ranges.ratio_high) w = std::clamp(rounded(h * ranges.ratio_high), 1, width);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

PixelRect random_crop(int height, int width, int size, int padding, RandomStream& random) {
  TANDEM_CHECK(height + 2 * padding >= size && width + 2 * padding >= size,
               "no {0}x{0} crop in {1}x{2} padded by {3}", size, height, width, padding);
  const int top = below(random, height + 2 * padding - size + 1) - padding;
  const int left = below(random, width + 2 * padding - size + 1) - padding;
  return {top, left, size, size};
}

PixelRect random_erasing(int size, RandomStream& random) {
  constexpr double least_area = 0.02;
  constexpr double most_area = 0.33;
  constexpr double least_ratio = 0.3;
  constexpr double most_ratio = 3.3;
  constexpr int tries = 10;
  for (int i = 0; i < tries; ++i) {
    const double area = static_cast<double>(size) * size * uniform(random, least_area, most_area);
    const double ratio = std::exp(uniform(random, std::log(least_ratio), std::log(most_ratio)));
    const int h = rounded(std::sqrt(area * ratio));
    const int w = rounded(std::sqrt(area / ratio));
    if (h < 1 || w < 1 || h >= size || w >= size) continue;
    const int top = below(random, size - h + 1);
    return {top, below(random, size - w + 1), h, w};
  }
  return {};
}

PixelRect center_crop(int height, int width, int size) {
  return {rounded((height - size) / 2.0), rounded((width - size) / 2.0), size, size};
}

PixelRect resized_extents(int height, int width, int shorter) {
  constexpr int most = 1 << 30;  // with paddings and windows beside it an int
  const auto longer = [&](int long_side, int short_side) {
    const std::int64_t side = std::int64_t{shorter} * long_side / short_side;
    if (side > most) {
      throw ImageError(fmt::format(
          "an image of {} x {} pixels would be {} long with a shorter side of {}, at most {} can "
          "be; make data.resize or data.size less, or leave the image out",
          height, width, side, shorter, most));
    }
    return static_cast<int>(side);
  };
  if (height <= width) return {0, 0, shorter, longer(width, height)};
  return {0, 0, longer(height, width), shorter};
}

}  // namespace tandem
