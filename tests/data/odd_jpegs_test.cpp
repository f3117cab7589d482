#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "data/augment/resample.h"
#include "data/input_file.h"
#include "data/jpeg/jpeg_decoder.h"

namespace tandem::testing {
namespace {

Image decode(const std::string& name, int channels = 3) {
  const std::string path = std::string(TANDEM_SHARED_DATA "/odd-jpegs/") + name;
  return decode_jpeg(read_whole_file(path), channels, path);
}

std::array<double, 3> means(const Image& image) {
  std::array<double, 3> sums{};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) sums[i % 3] += image.pixels[i];
  for (double& sum : sums) sum /= static_cast<double>(image.pixels.size()) / 3.0;
  return sums;
}

struct Known {
  const char* name;
  int height;
  int width;
  std::array<double, 3> mean;  ///< by Pillow 13.0.0's convert("RGB")
};

class OddJpegs : public ::testing::TestWithParam<Known> {};

TEST_P(OddJpegs, LooksAsInPillow) {
  const Image image = decode(GetParam().name);
  EXPECT_EQ(image.height, GetParam().height);
  EXPECT_EQ(image.width, GetParam().width);
  const auto mean = means(image);
  for (std::size_t c = 0; c < 3; ++c) EXPECT_NEAR(mean[c], GetParam().mean[c], 0.5) << c;
}

INSTANTIATE_TEST_SUITE_P(
    Files, OddJpegs,
    ::testing::Values(Known{"broken_exif_dpi.jpg", 100, 100, {0.0, 128.0, 1.0}},
                      Known{"hopper.jpg", 128, 128, {89.72, 80.08, 95.41}},
                      Known{"hopper_16bit_qtables.jpg", 128, 128, {90.13, 80.28, 94.80}},
                      Known{"hopper_gray.jpg", 128, 128, {84.69, 84.69, 84.69}},
                      Known{"invalid-exif.jpg", 200, 200, {92.09, 92.09, 92.09}},
                      Known{"jpeg_ff00_header.jpg", 225, 300, {116.45, 78.92, 77.16}},
                      Known{"junk_jpeg_header.jpg", 768, 1024, {117.10, 115.83, 116.81}},
                      Known{"pil_sample_cmyk.jpg", 100, 100, {30.23, 5.44, 7.39}},
                      Known{"progressive_cat.jpg", 240, 320, {137.48, 143.20, 128.04}}));

TEST(OddJpegs, OrientationsAreTheSamePicture) {
  const Image upright = decode("hopper.jpg");
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const Image image = decode("hopper_orientation_" + std::to_string(orientation) + ".jpg");
    ASSERT_EQ(image.pixels.size(), upright.pixels.size());
    double sum = 0.0;
    for (std::size_t i = 0; i < image.pixels.size(); ++i) {
      sum += std::abs(int{image.pixels[i]} - int{upright.pixels[i]});
    }
    // Another orientation of the same picture differs by about 60 levels.
    EXPECT_LT(sum / static_cast<double>(image.pixels.size()), 8.0) << orientation;
  }
}

TEST(OddJpegs, TruncatedIsAnError) {
  try {
    static_cast<void>(decode("truncated_jpeg.jpg"));
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("truncated_jpeg.jpg: "), std::string::npos);
  }
}

TEST(OddJpegs, GrayStaysGray) {
  const Image image = decode("hopper_gray.jpg", 1);
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.pixels.size(), 128U * 128U);
}

/// Peak signal-to-noise ratio in dB of two images of the same extents.
double psnr(const Image& a, const Image& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) {
    const double difference = static_cast<double>(a.pixels[i]) - b.pixels[i];
    sum += difference * difference;
  }
  return 10.0 * std::log10(255.0 * 255.0 * static_cast<double>(a.pixels.size()) / sum);
}

/// A reduced decode against the full one, both resized as Pillow does, on photos.
TEST(Photos, ReducedDecodingLooksLikeTheFullOne) {
  double worst = 1e9;
  double sum = 0.0;
  int count = 0;
  const std::filesystem::path folder(TANDEM_SHARED_DATA "/clothing/validation");
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".jpg") continue;
    const std::string path = entry.path().string();
    JpegImage image(read_whole_file(path), 3, path);
    const PixelRect box{3, 7, 371, 353};
    for (const int size : {160, 80, 40}) {  // read at 1/2, 1/4, 1/8
      const ImageView full = image.read(box, 371, 353).view;
      const Image wanted = resize(full, size, size);
      const ImagePart part = image.read(box, size, size);
      const Image got = resize(part.view, {size, size, part.box, {0, 0, size, size}});
      const double db = psnr(wanted, got);
      worst = std::min(worst, db);
      sum += db;
      ++count;
    }
  }
  ASSERT_GE(count, 300);
  EXPECT_GT(worst, 28.0);
  EXPECT_GT(sum / count, 38.0);
}

}  // namespace
}  // namespace tandem::testing
