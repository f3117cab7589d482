#include "data/augment/augment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

/// The largest distance between two samples' distribution functions (Kolmogorov and Smirnov's).
double distance(std::vector<double> a, std::vector<double> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  double largest = 0.0;
  for (const double value : a) {
    const auto share = [value](const std::vector<double>& all) {
      const auto end = std::ranges::upper_bound(all, value);
      return static_cast<double>(end - all.begin()) / static_cast<double>(all.size());
    };
    largest = std::max(largest, std::abs(share(a) - share(b)));
  }
  return largest;
}

/// What a box is described by: its share of the image, the logarithm of its height over its width,
/// and where it stands between the image's edges, 0 to 1.
struct Description {
  std::function<double(const PixelRect&)> value;
  const char* name;
};

std::vector<Description> descriptions(int height, int width) {
  const double area = static_cast<double>(height) * width;
  return {
      {[=](const PixelRect& box) { return box.height * box.width / area; }, "area"},
      {[](const PixelRect& box) { return std::log(static_cast<double>(box.height) / box.width); },
       "ratio"},
      {[=](const PixelRect& box) { return (box.top + 0.5) / (height - box.height + 1.0); }, "row"},
      {[=](const PixelRect& box) { return (box.left + 0.5) / (width - box.width + 1.0); },
       "column"},
  };
}

/// Expects boxes that are drawn as those of the definition are, and inside the image. Two samples
/// of this size from one distribution are further apart than this once in some ten million times.
void expect_drawn_alike(int height, int width, const std::function<PixelRect()>& draw,
                        const std::function<PixelRect()>& definition) {
  constexpr int count = 20'000;
  std::vector<PixelRect> drawn;
  std::vector<PixelRect> defined;
  for (int i = 0; i < count; ++i) {
    drawn.push_back(draw());
    const PixelRect& box = drawn.back();
    ASSERT_TRUE(box.top >= 0 && box.left >= 0 && box.height > 0 && box.width > 0 &&
                box.top + box.height <= height && box.left + box.width <= width);
    defined.push_back(definition());
  }
  for (const auto& [value, name] : descriptions(height, width)) {
    std::vector<double> a;
    std::vector<double> b;
    for (const PixelRect& box : drawn) a.push_back(value(box));
    for (const PixelRect& box : defined) b.push_back(value(box));
    EXPECT_LT(distance(a, b), 0.03) << name;
  }
}

/// get_params of torchvision 0.29's RandomErasing and RandomResizedCrop, with another source of
/// random numbers.
class Torchvision {
 public:
  PixelRect erasing(int size) {
    for (int i = 0; i < 10; ++i) {
      const double area = size * size * uniform(0.02, 0.33);
      const double ratio = std::exp(uniform(std::log(0.3), std::log(3.3)));
      const auto h = static_cast<int>(std::nearbyint(std::sqrt(area * ratio)));
      const auto w = static_cast<int>(std::nearbyint(std::sqrt(area / ratio)));
      if (!(h < size && w < size)) continue;
      const int top = integer(size - h + 1);
      return {top, integer(size - w + 1), h, w};
    }
    return {};
  }

  PixelRect resized_crop(int height, int width) {
    for (int i = 0; i < 10; ++i) {
      const double area = height * width * uniform(0.08, 1.0);
      const double ratio = std::exp(uniform(std::log(3.0 / 4.0), std::log(4.0 / 3.0)));
      const auto w = static_cast<int>(std::nearbyint(std::sqrt(area * ratio)));
      const auto h = static_cast<int>(std::nearbyint(std::sqrt(area / ratio)));
      if (!(0 < w && w <= width && 0 < h && h <= height)) continue;
      const int top = integer(height - h + 1);
      return {top, integer(width - w + 1), h, w};
    }
    // Of 300 x 200 pixels the ratio is below 3/4: as wide as they are.
    const auto h = static_cast<int>(std::nearbyint(width / (3.0 / 4.0)));
    return {(height - h) / 2, 0, h, width};
  }

 private:
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  int integer(int bound) { return std::uniform_int_distribution<int>(0, bound - 1)(random_); }

  std::mt19937_64 random_{7};
};

TEST(Augment, RandomErasingDrawsAsTorchvisionDoes) {
  RandomStream random(3);
  Torchvision torchvision;
  expect_drawn_alike(
      160, 160, [&] { return random_erasing(160, random); },
      [&] { return torchvision.erasing(160); });
}

// What the distance above is too coarse for.
TEST(Augment, RandomErasingHasTorchvisionsRanges) {
  constexpr int size = 20'000;  // so that rounding to pixels hides nothing
  RandomStream random(5);
  double least_ratio = 1.0;
  double most_ratio = 1.0;
  double least_area = 1.0;
  double most_area = 0.0;
  for (int i = 0; i < 50'000; ++i) {
    const PixelRect box = random_erasing(size, random);
    const double ratio = static_cast<double>(box.height) / box.width;
    const double area = static_cast<double>(box.height) * box.width / size / size;
    least_ratio = std::min(least_ratio, ratio);
    most_ratio = std::max(most_ratio, ratio);
    least_area = std::min(least_area, area);
    most_area = std::max(most_area, area);
  }
  EXPECT_NEAR(least_ratio, 0.3, 0.001);
  EXPECT_NEAR(most_ratio, 3.3, 0.005);
  EXPECT_NEAR(least_area, 0.02, 0.0005);
  EXPECT_NEAR(most_area, 0.33, 0.0005);
}

TEST(Augment, RandomResizedCropDrawsAsTorchvisionDoes) {
  RandomStream random(3);
  Torchvision torchvision;
  expect_drawn_alike(
      300, 200, [&] { return random_resized_crop(300, 200, {}, random); },
      [&] { return torchvision.resized_crop(300, 200); });
}

TEST(Augment, RandomResizedCropFallsBackToTheCentre) {
  RandomStream random(3);
  CropRanges ranges;
  ranges.scale_low = 0.9;
  // No box of 90 % of the area with these ratios fits into a strip.
  EXPECT_EQ(random_resized_crop(10, 100, ranges, random), (PixelRect{0, 43, 10, 13}));
  EXPECT_EQ(random_resized_crop(100, 9, ranges, random), (PixelRect{44, 0, 12, 9}));
}

TEST(Augment, ResizesNoImageToMoreThanAnIntCanHold) {
  EXPECT_EQ(resized_extents(1, 65535, 16384), (PixelRect{0, 0, 16384, 1073725440}));
  const std::string message = message_of<InputError>([] { resized_extents(65535, 1, 40000); });
  EXPECT_EQ(message,
            "an image of 65535 x 1 pixels would be 2621400000 long with a shorter side of 40000, "
            "at most 1073741824 can be; make data.resize or data.size less, or leave the image "
            "out");
}

TEST(Augment, StreamsAreNamedBySeedEpochAndSample) {
  const auto first = [](std::uint64_t seed, std::int64_t epoch, std::int64_t sample) {
    return augmentation_stream(seed, epoch, sample).next_u64();
  };
  std::set<std::uint64_t> values;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
      for (std::int64_t sample = 0; sample < 5; ++sample) {
        values.insert(first(seed, epoch, sample));
      }
    }
  }
  EXPECT_EQ(values.size(), 125U);
  EXPECT_EQ(first(1, 2, 3), first(1, 2, 3));
}

}  // namespace
}  // namespace tandem
