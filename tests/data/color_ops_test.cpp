#include "data/augment/color_ops.h"

#include "data/augment/sharpness.h"
#include "data/levels.h"

namespace tandem::testing {
namespace {

/// Factors of the weakest, a middle and the strongest magnitude of both signs, and two beyond.
constexpr double factors[]{1.0, 1.27, 0.73, 1.9, 0.1, 0.0, 3.0};

class ColorOps : public ::testing::TestWithParam<int> {
 protected:
  const Image image = pattern(11, 9, GetParam());

  double gray(int y, int x) const {
    if (image.channels == 1) return at(image, y, x, 0);
    return std::floor(0.2989 * at(image, y, x, 0) + 0.587 * at(image, y, x, 1) +
                      0.114 * at(image, y, x, 2));
  }
};

INSTANTIATE_TEST_SUITE_P(Channels, ColorOps, ::testing::Values(1, 3));

TEST_P(ColorOps, Brightness) {
  for (const double factor : factors) {
    Image out = image;
    adjust_brightness(out, factor);
    expect_levels(out, [&](int level, int y, int x, int c) {
      return is_level(level, factor * at(image, y, x, c));
    });
  }
}

TEST_P(ColorOps, SaturationIsAgainstThePixelsGray) {
  for (const double factor : factors) {
    Image out = image;
    adjust_saturation(out, factor);
    expect_levels(out, [&](int level, int y, int x, int c) {
      return is_level(level, factor * at(image, y, x, c) + (1.0 - factor) * gray(y, x));
    });
  }
}

TEST_P(ColorOps, ContrastIsAgainstTheMeanGray) {
  double mean = 0.0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) mean += gray(y, x) / (image.height * image.width);
  }
  for (const double factor : factors) {
    Image out = image;
    adjust_contrast(out, factor);
    expect_levels(out, [&](int level, int y, int x, int c) {
      return is_level(level, factor * at(image, y, x, c) + (1.0 - factor) * mean);
    });
  }
}

TEST_P(ColorOps, SharpnessIsAgainstTheRoundedBlur) {
  for (const double factor : factors) {
    Image out;
    adjust_sharpness(image, factor, out);
    expect_levels(out, [&](int level, int y, int x, int c) {
      const int pixel = at(image, y, x, c);
      if (y == 0 || x == 0 || y == image.height - 1 || x == image.width - 1) return level == pixel;
      double blurred = 4.0 / 13.0 * pixel;
      for (int i = 0; i < 9; ++i) blurred += at(image, y + i / 3 - 1, x + i % 3 - 1, c) / 13.0;
      return is_level(level, factor * pixel + (1.0 - factor) * std::round(blurred));
    });
  }
}

TEST(Sharpness, LeavesThinImagesAlone) {
  for (const auto& [height, width] : {std::pair{2, 9}, {9, 2}, {1, 1}}) {
    const Image image = pattern(height, width, 3);
    Image out;
    adjust_sharpness(image, 1.9, out);
    EXPECT_EQ(out.pixels, image.pixels);
    EXPECT_EQ(out.height, height);
  }
}

TEST_P(ColorOps, PosterizeKeepsTheHighestBits) {
  for (int bits = 0; bits <= 8; ++bits) {
    Image out = image;
    posterize(out, bits);
    const int step = 1 << (8 - bits);
    expect_levels(out, [&](int level, int y, int x, int c) {
      return level == at(image, y, x, c) / step * step;
    });
  }
}

TEST_P(ColorOps, SolarizeInvertsFromTheThresholdOn) {
  const auto present = static_cast<float>(image.pixels[20]);
  for (const float threshold : {0.0F, 178.5F, present, std::nextafter(present, 256.0F), 255.0F}) {
    Image out = image;
    solarize(out, threshold);
    expect_levels(out, [&](int level, int y, int x, int c) {
      const int pixel = at(image, y, x, c);
      return level == (static_cast<float>(pixel) >= threshold ? 255 - pixel : pixel);
    });
  }
}

/// A picture whose channels keep to ranges of their own; the last channel has one level.
Image narrow(int channels) {
  Image image = pattern(11, 9, channels);
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    const int kind = channels == 1 ? 0 : static_cast<int>(i % 3);
    const int level = image.pixels[i];
    image.pixels[i] = static_cast<std::uint8_t>(kind == 0   ? 40 + level / 3
                                                : kind == 1 ? 100 + level / 2
                                                            : 77);
  }
  return image;
}

TEST_P(ColorOps, AutocontrastStretchesEachChannel) {
  const Image source = narrow(GetParam());
  Image out = source;
  autocontrast(out);
  for (int c = 0; c < source.channels; ++c) {
    int low = 255;
    int high = 0;
    for (int i = 0; i < source.height * source.width; ++i) {
      low = std::min(low, at(source, 0, i, c));
      high = std::max(high, at(source, 0, i, c));
    }
    expect_levels(out, [&](int level, int y, int x, int channel) {
      if (channel != c) return true;
      const int pixel = at(source, y, x, c);
      if (low == high) return level == pixel;
      return is_level(level, (pixel - low) * 255.0 / (high - low));
    });
  }
}

/// What Pillow's ImageOps.equalize documents, by counting for every pixel.
TEST_P(ColorOps, EqualizeSpreadsEachChannel) {
  Image source = narrow(GetParam());
  // Enough pixels for a step of more than one: the same picture eight times over.
  const Bytes once = source.pixels;
  for (int i = 1; i < 8; ++i) {
    source.pixels.insert(source.pixels.end(), once.begin(), once.end());
  }
  source.height *= 8;
  Image out = source;
  equalize(out);
  const int count = source.height * source.width;
  expect_levels(out, [&](int level, int y, int x, int c) {
    const int pixel = at(source, y, x, c);
    int below = 0;
    int highest = 0;
    int at_highest = 0;
    for (int i = 0; i < count; ++i) {
      const int other = at(source, 0, i, c);
      below += other < pixel ? 1 : 0;
      if (other > highest) highest = other, at_highest = 0;
      at_highest += other == highest ? 1 : 0;
    }
    const int step = (count - at_highest) / 255;
    return level == (step == 0 ? pixel : std::min(255, (below + step / 2) / step));
  });
  EXPECT_NE(out.pixels, source.pixels);
}

TEST(Equalize, LeavesFewPixelsAlone) {
  const Image image =
      pattern(15, 17, 3);  // 255 pixels, of which at least one has the highest level
  Image out = image;
  equalize(out);
  EXPECT_EQ(out.pixels, image.pixels);
}

}  // namespace
}  // namespace tandem::testing
