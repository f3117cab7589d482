#include "data/augment/transform.h"

#include <cmath>
#include <set>

#include "base/hash.h"
#include "data/augment/resample.h"
#include "data/support.h"

namespace tandem::testing {
namespace {

/// Made by Pillow 13.0.0: Image.fromarray(pattern).resize((width, height), Image.BILINEAR).
struct PillowCase {
  int height, width, channels, to_height, to_width;
  std::uint64_t hash;  ///< FNV-1a of the bytes
  Bytes first;
};
const std::vector<PillowCase> pillow_cases{
    {13, 17, 3, 8, 8, 0x87da06f3ff5b4e52ULL, {69, 122, 157, 125, 135, 154, 129, 143}},
    {13, 17, 1, 8, 8, 0x86c80b8b71bc0350ULL, {69, 125, 129, 103, 112, 123, 146, 91}},
    {50, 40, 3, 11, 9, 0xb836fcf1638af0edULL, {123, 135, 134, 130, 130, 131, 125, 136}},
    {7, 5, 3, 16, 12, 0x407b824845c447a8ULL, {0, 53, 106, 5, 58, 111, 20, 73}},
    {33, 64, 1, 33, 20, 0xb370c68b6fc663f2ULL, {52, 147, 82, 139, 99, 121, 127, 102}},
    {300, 200, 3, 37, 24, 0x9bd3d96ae5f6e198ULL, {129, 131, 130, 130, 130, 130, 130, 126}},
    {5, 90, 3, 5, 90, 0xce3c82d6ac730e1cULL, {0, 53, 106, 37, 90, 143, 74, 127}},
};

TEST(Resample, EqualsPillowByAllInstructions) {
  for (const ResizePasses& passes : resize_passes()) {
    for (const PillowCase& c : pillow_cases) {
      SCOPED_TRACE(fmt::format("{}x{} by {}", c.height, c.width, passes.instructions));
      const Image source = pattern(c.height, c.width, c.channels);
      const Image image = resize(
          view_of(source),
          {c.to_height, c.to_width, whole_of(c.height, c.width), {0, 0, c.to_height, c.to_width}},
          passes);
      EXPECT_EQ(Bytes(image.pixels.begin(), image.pixels.begin() + 8), c.first);
      const std::string_view bytes(reinterpret_cast<const char*>(image.pixels.data()),
                                   image.pixels.size());
      EXPECT_EQ(hash_text(bytes), c.hash);
    }
  }
}

/// The antialiased bilinear filter in double precision, without intermediate rounding.
double naive_resized(const Image& image, int to_height, int to_width, int y, int x, int c) {
  const auto weights = [](int in, int out, int i) {
    const double scale = static_cast<double>(in) / out;
    const double reach = std::max(1.0, scale);
    std::vector<double> w(static_cast<std::size_t>(in));
    double total = 0.0;
    for (int j = 0; j < in; ++j) {
      const double distance = std::abs((j + 0.5) - (i + 0.5) * scale) / reach;
      total += w[static_cast<std::size_t>(j)] = std::max(0.0, 1.0 - distance);
    }
    for (double& value : w) value /= total;
    return w;
  };
  const auto wy = weights(image.height, to_height, y);
  const auto wx = weights(image.width, to_width, x);
  double sum = 0.0;
  for (int i = 0; i < image.height; ++i) {
    for (int j = 0; j < image.width; ++j) {
      sum += wy[static_cast<std::size_t>(i)] * wx[static_cast<std::size_t>(j)] * at(image, i, j, c);
    }
  }
  return sum;
}

TEST(Resample, PartsAreCutFromTheWhole) {
  const Image source = pattern(41, 30, 3);
  const Image whole = resize(view_of(source), 17, 13);
  const Image part = resize(view_of(source), {17, 13, whole_of(41, 30), {5, 2, 7, 9}});
  for (int y = 0; y < 7; ++y) {
    for (int x = 0; x < 9; ++x) {
      for (int c = 0; c < 3; ++c) {
        ASSERT_EQ(at(part, y, x, c), at(whole, y + 5, x + 2, c));
        ASSERT_NEAR(at(part, y, x, c), naive_resized(source, 17, 13, y + 5, x + 2, c), 1.01);
      }
    }
  }
}

TransformOptions options(int size, int channels) {
  TransformOptions made;
  made.size = size;
  made.channels = channels;
  made.mean = {0.5F, 0.25F, 0.125F};
  made.deviation = {0.5F, 0.2F, 0.3F};
  made.mean.resize(static_cast<std::size_t>(channels));
  made.deviation.resize(static_cast<std::size_t>(channels));
  return made;
}

std::vector<float> applied(const TransformOptions& made, const Image& image,
                           std::int64_t sample = 0) {
  const Transform transform(made);
  std::vector<float> out(static_cast<std::size_t>(transform.output_elements()));
  RandomStream random = augmentation_stream(1, 2, sample);
  DecodedImage source(image);
  transform.apply(source, random, out.data());
  return out;
}

double normalised(const TransformOptions& made, double pixel, int c) {
  const auto i = static_cast<std::size_t>(c);
  return (pixel / 255.0 - double{made.mean[i]}) / double{made.deviation[i]};
}

/// Compares with pixel(y, x, c), 0..255.
template <typename Pixel>
double worst_difference(const TransformOptions& made, const std::vector<float>& out,
                        Pixel&& pixel) {
  double worst = 0.0;
  std::size_t i = 0;
  for (int y = 0; y < made.size; ++y) {
    for (int x = 0; x < made.size; ++x) {
      for (int c = 0; c < made.channels; ++c, ++i) {
        const double wanted = normalised(made, pixel(y, x, c), c);
        worst = std::max(worst, std::abs(static_cast<double>(out[i]) - wanted));
      }
    }
  }
  return worst;
}
constexpr double exact = 2e-6;

TEST(Transform, NormalisesImagesOfTheRightSize) {
  for (const int channels : {1, 3}) {
    const Image image = pattern(9, 9, channels);
    const TransformOptions made = options(9, channels);
    EXPECT_LT(worst_difference(made, applied(made, image),
                               [&](int y, int x, int c) { return at(image, y, x, c); }),
              exact);
  }
}

TEST(Transform, ConvertsChannels) {
  const Image gray = pattern(6, 6, 1);
  TransformOptions made = options(6, 3);
  EXPECT_LT(worst_difference(made, applied(made, gray),
                             [&](int y, int x, int) { return at(gray, y, x, 0); }),
            exact);
  const Image colour = pattern(6, 6, 3);
  made = options(6, 1);
  EXPECT_LT(worst_difference(made, applied(made, colour),
                             [&](int y, int x, int) {
                               return std::floor(0.299 * at(colour, y, x, 0) +
                                                 0.587 * at(colour, y, x, 1) +
                                                 0.114 * at(colour, y, x, 2) + 0.5);
                             }),
            1.01 / 255.0 / 0.5);
}

TEST(Transform, ResizesTheShorterSideAndCropsTheCentre) {
  const Image image = pattern(40, 61, 3);
  TransformOptions made = options(16, 3);
  made.resize = 21;
  // 61 * 21 / 40 = 32.025; the crop begins at round(2.5) = 2 and (32 - 16) / 2 = 8.
  const double rounding = 1.01 / 255.0 / 0.2;
  EXPECT_LT(worst_difference(
                made, applied(made, image),
                [&](int y, int x, int c) { return naive_resized(image, 21, 32, y + 2, x + 8, c); }),
            rounding);
  made.resize = 0;  // to 16 x 24
  EXPECT_LT(worst_difference(
                made, applied(made, image),
                [&](int y, int x, int c) { return naive_resized(image, 16, 24, y, x + 4, c); }),
            rounding);
}

TEST(Transform, EvaluationDrawsNothing) {
  TransformOptions made = options(8, 3);
  made.flip = made.random_resized_crop = true;
  made.crop_padding = -1;
  const Image image = pattern(8, 8, 3);
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    EXPECT_LT(worst_difference(made, applied(made, image, sample),
                               [&](int y, int x, int c) { return at(image, y, x, c); }),
              exact);
  }
}

/// Every output of a padded crop with a flip is one of the (2 p + 1)^2 * 2 possible ones, and all
/// of them come.
TEST(Transform, CropsAndFlipsAtRandom) {
  for (const int channels : {1, 3}) {
    const Image image = pattern(6, 6, channels);
    TransformOptions made = options(6, channels);
    made.train = made.flip = true;
    made.crop_padding = 2;
    std::set<int> seen;
    for (std::int64_t sample = 0; sample < 600; ++sample) {
      const std::vector<float> out = applied(made, image, sample);
      int matches = 0;
      for (int which = 0; which < 50; ++which) {
        const int dy = which / 2 / 5 - 2;
        const int dx = which / 2 % 5 - 2;
        const double difference = worst_difference(made, out, [&](int y, int x, int c) {
          const int from_x = (which % 2 != 0 ? 5 - x : x) + dx;
          const int from_y = y + dy;
          const bool inside = from_x >= 0 && from_x < 6 && from_y >= 0 && from_y < 6;
          return inside ? at(image, from_y, from_x, c) : 0;
        });
        if (difference < exact) ++matches, seen.insert(which);
      }
      ASSERT_EQ(matches, 1) << sample;
    }
    EXPECT_EQ(seen.size(), 50U);
  }
}

TEST(Transform, CropsAtRandomAfterResizing) {
  const Image image = pattern(30, 20, 3);
  TransformOptions made = options(8, 3);
  made.train = true;
  made.resize = 10;  // to 15 x 10
  made.crop_padding = 3;
  const Image whole = resize(view_of(image), 15, 10);
  std::set<int> seen;
  for (std::int64_t sample = 0; sample < 2000; ++sample) {
    RandomStream random = augmentation_stream(1, 2, sample);
    const PixelRect crop = random_crop(15, 10, 8, 3, random);
    seen.insert(crop.top * 100 + crop.left);
    ASSERT_LT(worst_difference(made, applied(made, image, sample),
                               [&](int y, int x, int c) {
                                 const int from_y = y + crop.top;
                                 const int from_x = x + crop.left;
                                 const bool inside =
                                     from_x >= 0 && from_x < 10 && from_y >= 0 && from_y < 15;
                                 return inside ? at(whole, from_y, from_x, c) : 0;
                               }),
              exact);
  }
  EXPECT_EQ(seen.size(), 14U * 9U);  // 15 + 6 - 8 + 1 by 10 + 6 - 8 + 1 places
}

TEST(Transform, RandomResizedCropIsABoxResized) {
  const Image image = pattern(50, 34, 3);
  TransformOptions made = options(12, 3);
  made.train = made.random_resized_crop = true;
  for (std::int64_t sample = 0; sample < 20; ++sample) {
    RandomStream random = augmentation_stream(1, 2, sample);
    const PixelRect box = random_resized_crop(50, 34, made.ranges, random);
    Image cut{box.height, box.width, 3, {}};
    for (int y = 0; y < box.height; ++y) {
      for (int x = 0; x < box.width; ++x) {
        for (int c = 0; c < 3; ++c) {
          cut.pixels.push_back(static_cast<std::uint8_t>(at(image, box.top + y, box.left + x, c)));
        }
      }
    }
    EXPECT_LT(
        worst_difference(made, applied(made, image, sample),
                         [&](int y, int x, int c) { return naive_resized(cut, 12, 12, y, x, c); }),
        0.001 / 255.0 / 0.2);
  }
}

TEST(Transform, RandomResizedCropIsWithinALevelOfPillow) {
  // Upwards, downwards and far downwards, so that all counts of taps come; flipped half of the
  // time.
  for (const int size : {5, 23, 64, 150}) {
    const Image image = pattern(131, 97, 3);
    TransformOptions made = options(size, 3);
    made.train = made.random_resized_crop = made.flip = true;
    int flips = 0;
    for (std::int64_t sample = 0; sample < 10; ++sample) {
      RandomStream random = augmentation_stream(1, 2, sample);
      const PixelRect box = random_resized_crop(131, 97, made.ranges, random);
      const bool flip = random.uniform() < 0.5F;
      flips += flip ? 1 : 0;
      const Image exact_one = resize(part_of(view_of(image), box), size, size);
      EXPECT_LT(worst_difference(made, applied(made, image, sample),
                                 [&](int y, int x, int c) {
                                   return double(at(exact_one, y, flip ? size - 1 - x : x, c));
                                 }),
                1.2 / 255.0 / 0.2)
          << size << " " << sample;
    }
    EXPECT_GT(flips, 1);
  }
}

TEST(Transform, ErasesABoxAndNothingElse) {
  const Image image = pattern(40, 40, 3);
  TransformOptions made = options(40, 3);
  made.train = true;
  const std::vector<float> whole = applied(made, image);
  made.random_erasing = 0.5;
  int erased = 0;
  double least = 1.0;
  double most = 0.0;
  constexpr int trials = 600;
  for (std::int64_t sample = 0; sample < trials; ++sample) {
    const std::vector<float> out = applied(made, image, sample);
    if (out == whole) continue;
    ++erased;
    // The pixels that are zero form one filled box.
    int top = 40, left = 40, bottom = -1, right = -1, count = 0;
    for (int y = 0; y < 40; ++y) {
      for (int x = 0; x < 40; ++x) {
        const std::size_t at_pixel =
            (static_cast<std::size_t>(y) * 40 + static_cast<std::size_t>(x)) * 3;
        if (std::equal(out.begin() + static_cast<std::ptrdiff_t>(at_pixel),
                       out.begin() + static_cast<std::ptrdiff_t>(at_pixel) + 3,
                       whole.begin() + static_cast<std::ptrdiff_t>(at_pixel))) {
          continue;
        }
        for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(out[at_pixel + c], 0.0F);
        top = std::min(top, y);
        left = std::min(left, x);
        bottom = std::max(bottom, y);
        right = std::max(right, x);
        ++count;
      }
    }
    ASSERT_EQ(count, (bottom - top + 1) * (right - left + 1)) << sample;
    least = std::min(least, count / 1600.0);
    most = std::max(most, count / 1600.0);
    const double ratio = (right - left + 1.0) / (bottom - top + 1.0);
    EXPECT_TRUE(ratio > 0.2 && ratio < 5.0) << ratio;  // 0.3 to 3.3, rounded to pixels
  }
  EXPECT_NEAR(erased / static_cast<double>(trials), 0.5, 0.07);
  EXPECT_NEAR(least, 0.02, 0.01);
  EXPECT_NEAR(most, 0.33, 0.03);
}

}  // namespace
}  // namespace tandem::testing
