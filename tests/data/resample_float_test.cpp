#include "data/augment/resample_float.h"

#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "data/augment/resample_short.h"
#include "data/augment/resize_passes/lane_instructions_portable.h"
// Behind it
#include "data/augment/resize_passes/short_lanes.h"
#include "data/support.h"

namespace tandem::testing {
namespace {

/// Weights of all `in` inputs for output i of `out`, where the stretch of `length` from `low` on is
/// resized: the triangle filter in double precision over the inputs that the stretch touches.
std::vector<double> naive_weights(int in, double low, double length, int out, int i) {
  const double scale = length / out;
  const double reach = std::max(1.0, scale);
  std::vector<double> weights(static_cast<std::size_t>(in));
  double total = 0.0;
  for (int x = static_cast<int>(std::floor(low)); x < std::ceil(low + length); ++x) {
    const double distance = std::abs(x + 0.5 - low - (i + 0.5) * scale) / reach;
    total += weights[static_cast<std::size_t>(x)] = std::max(0.0, 1.0 - distance);
  }
  for (double& weight : weights) weight /= total;
  return weights;
}

/// All values of the result, 0..255, rows from the top, mirrored where that is wanted.
std::vector<double> naive(const ImageView& source, const FloatResize& wanted) {
  const auto columns = std::size_t{3} * static_cast<std::size_t>(source.width);
  std::vector<double> result;
  for (int y = 0; y < wanted.height; ++y) {
    std::vector<double> row(columns);
    const auto down =
        naive_weights(source.height, wanted.box.top, wanted.box.height, wanted.height, y);
    for (int from = 0; from < source.height; ++from) {
      const double weight = down[static_cast<std::size_t>(from)];
      if (weight == 0.0) continue;
      for (std::size_t i = 0; i < columns; ++i) row[i] += weight * source.row(from)[i];
    }
    for (int x = 0; x < wanted.width; ++x) {
      const auto across = naive_weights(source.width, wanted.box.left, wanted.box.width,
                                        wanted.width, wanted.mirrored ? wanted.width - 1 - x : x);
      for (std::size_t c = 0; c < 3; ++c) {
        double sum = 0.0;
        for (std::size_t i = 0; i < across.size(); ++i) sum += across[i] * row[3 * i + c];
        result.push_back(sum);
      }
    }
  }
  return result;
}

/// Rows one byte further apart than they are long, and nothing behind the last: a sanitizer sees
/// what is read past it.
struct Source {
  std::unique_ptr<std::uint8_t[]> memory;
  ImageView view;
};

Source source_of(const Image& image) {
  const std::ptrdiff_t row = std::ptrdiff_t{3} * image.width;
  const auto bytes = static_cast<std::size_t>((row + 1) * image.height - 1);
  Source source{std::make_unique<std::uint8_t[]>(bytes), {}};
  source.view = {source.memory.get(), row + 1, image.height, image.width, 3};
  for (int y = 0; y < image.height; ++y) {
    std::memcpy(source.memory.get() + y * (row + 1), image.pixels.data() + y * row,
                static_cast<std::size_t>(row));
  }
  return source;
}

struct Case {
  int height, width;
  RealRect box;
  int to_height, to_width;
  bool mirrored;
  bool in_shorts;
};

const std::vector<Case> cases{
    {339, 341, {0, 0, 339, 341}, 224, 224, false, true},          // as photos are cropped
    {40, 43, {0, 0, 40, 43}, 40, 43, false, true},                // as it is
    {40, 43, {0.3, 0.7, 39.2, 41.5}, 33, 37, true, true},         // odd, and edges within pixels
    {300, 310, {0, 0, 300, 310}, 100, 90, true, true},            // seven taps
    {350, 350, {0, 0, 350, 350}, 100, 100, false, true},          // the most reduced
    {352, 350, {0, 0, 352, 350}, 100, 100, false, false},         // a little more
    {20, 800, {0, 0, 20, 800}, 57, 229, false, true},             // upwards and far downwards
    {800, 20, {0, 0, 800, 20}, 229, 57, true, true},              //
    {7, 11, {0, 0, 7, 11}, 64, 64, false, true},                  // the narrowest
    {7, 10, {0, 0, 7, 10}, 64, 64, true, false},                  //
    {1, 11, {0, 0, 1, 11}, 16, 8, false, true},                   // one row, the smallest result
    {1, 12, {0, 5, 1, 1}, 20, 20, false, true},                   // one pixel of a row
    {30, 31, {17.25, 12.5, 0.5, 0.25}, 18, 19, true, true},       // a part of one pixel
    {30, 31, {29, 30, 1, 1}, 18, 19, false, true},                // the last pixel
    {60, 60, {0, 0, 60, 60}, 15, 60, false, false},               // too few rows
    {60, 60, {0, 0, 60, 60}, 60, 7, true, false},                 // too few columns
    {1, 1, {0, 0, 1, 1}, 3, 2, false, false},                     //
    {400, 533, {3.5, 7.5, 391.0, 522.0}, 17, 224, false, false},  // many taps
};

std::size_t values_of(const Case& c) {
  return std::size_t{3} * static_cast<std::size_t>(c.to_height * c.to_width);
}

FloatResize wanted_of(const Case& c) { return {c.to_height, c.to_width, c.box, c.mirrored}; }

TEST(FloatResample, EqualsTheNaiveFilter) {
  for (const Case& c : cases) {
    const Source source = source_of(pattern(c.height, c.width, 3));
    FloatResize wanted = wanted_of(c);
    const std::vector<double> exact = naive(source.view, wanted);
    wanted.scale = {0.5F, 2.0F, 1.0F};
    wanted.offset = {-3.0F, 0.0F, 70.0F};
    std::vector<float> out(exact.size());
    resize_to_floats(source.view, wanted, out.data());
    EXPECT_EQ(fits_shorts(source.view, wanted), c.in_shorts) << c.to_height << "x" << c.to_width;
    double worst = 0.0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double value =
          (double{out[i]} - double{wanted.offset[i % 3]}) / double{wanted.scale[i % 3]};
      worst = std::max(worst, std::abs(value - exact[i]));
    }
    EXPECT_LT(worst, c.in_shorts ? 0.05 : 0.001)
        << c.height << "x" << c.width << " to " << c.to_height << "x" << c.to_width;
  }
}

TEST(FloatResample, BytesAreTheNextLevels) {
  for (const Case& c : cases) {
    const Source source = source_of(pattern(c.height, c.width, 3));
    const FloatResize wanted = wanted_of(c);
    std::vector<float> floats(values_of(c));
    Bytes bytes(floats.size());
    resize_to_floats(source.view, wanted, floats.data());
    resize_to_bytes(source.view, wanted, bytes.data());
    for (std::size_t i = 0; i < floats.size(); ++i) {
      ASSERT_NEAR(static_cast<float>(bytes[i]), floats[i], 0.5001F)
          << i << " of " << c.to_height << "x" << c.to_width;
    }
  }
}

/// Sums of rounded weights may pass one: no sum of 16 bits may pass its end.
TEST(FloatResample, BlackAndWhiteStayAsTheyAre) {
  for (const Case& c : cases) {
    for (const int level : {0, 255}) {
      Image flat{c.height, c.width, 3, {}};
      flat.pixels.assign(std::size_t{3} * static_cast<std::size_t>(c.height * c.width),
                         static_cast<std::uint8_t>(level));
      const FloatResize wanted = wanted_of(c);
      std::vector<float> floats(values_of(c));
      Bytes bytes(floats.size());
      resize_to_floats(view_of(flat), wanted, floats.data());
      resize_to_bytes(view_of(flat), wanted, bytes.data());
      for (std::size_t i = 0; i < floats.size(); ++i) {
        ASSERT_EQ(bytes[i], level) << c.to_height << "x" << c.to_width;
        ASSERT_NEAR(floats[i], static_cast<float>(level), 0.05F);
      }
    }
  }
}

TEST(ResizePassesOfShorts, OfAllInstructionsGiveTheSame) {
  const std::span<const ResizePasses> all = resize_passes();
  ASSERT_STREQ(all.back().instructions, "portable");
  for (const Case& c : cases) {
    if (!c.in_shorts) continue;
    const Source source = source_of(pattern(c.height, c.width, 3));
    FloatResize wanted = wanted_of(c);
    wanted.scale = {0.5F, 2.0F, 1.0F};
    wanted.offset = {-3.0F, 0.0F, 70.0F};
    const auto values = values_of(c);
    std::vector<float> expected(values);
    Bytes expected_bytes(values);
    resize_shorts(source.view, wanted, expected.data(), all.back());
    resize_shorts(source.view, wanted, expected_bytes.data(), all.back());
    for (const ResizePasses& passes : all) {
      SCOPED_TRACE(fmt::format("{}x{} to {}x{} by {}", c.height, c.width, c.to_height, c.to_width,
                               passes.instructions));
      std::vector<float> floats(values);
      Bytes bytes(values);
      resize_shorts(source.view, wanted, floats.data(), passes);
      resize_shorts(source.view, wanted, bytes.data(), passes);
      EXPECT_EQ(bytes, expected_bytes);
      // One may scale and add in one operation, which rounds once.
      for (std::size_t i = 0; i < values; ++i) ASSERT_NEAR(floats[i], expected[i], 1e-4F) << i;
    }
  }
}

TEST(ShortLanes, EqualPlainArithmetic) {
  Short16 a{};
  Short16 b{};
  for (std::size_t k = 0; k < 16; ++k) {
    a[k] = static_cast<std::uint16_t>(k * 4369);
    b[k] = static_cast<std::uint16_t>(65535 - k * k * 257);
  }
  const Short16 product = high_product(a, b);
  const Float8 floats = to_floats(Word8{0, 1, 2, 255, 256, 65279, 65535, 70000});
  const Short16 same = spread(0x12341234U);
  for (std::size_t k = 0; k < 16; ++k) {
    EXPECT_EQ(product[k], (std::uint32_t{a[k]} * std::uint32_t{b[k]}) >> 16);
    EXPECT_EQ(same[k], 0x1234);
  }
  EXPECT_EQ(floats[1], 1.0F);
  EXPECT_EQ(floats[6], 65535.0F);
  EXPECT_EQ(floats[7], 70000.0F);
}

TEST(ShortLanes, TransposeTwoBlocks) {
  Short16 rows[8];
  for (std::size_t y = 0; y < 8; ++y) {
    for (std::size_t k = 0; k < 16; ++k) rows[y][k] = static_cast<std::uint16_t>(100 * y + k);
  }
  transpose_blocks(rows);
  for (std::size_t y = 0; y < 8; ++y) {
    for (std::size_t k = 0; k < 16; ++k) EXPECT_EQ(rows[y][k], 100 * (k % 8) + y + k / 8 * 8);
  }
}

TEST(ShortLanes, TransposePairs) {
  constexpr int stride = 9;
  std::array<std::uint16_t, 8 * stride> columns{};
  for (std::size_t x = 0; x < 8; ++x) {
    for (std::size_t y = 0; y < 8; ++y) {
      columns[x * stride + y] = static_cast<std::uint16_t>(1000 * y + x);
    }
  }
  Word8 pairs[4];
  transpose_pairs(columns.data(), stride, pairs);
  for (std::size_t y = 0; y < 4; ++y) {
    for (std::size_t x = 0; x < 8; ++x) {
      EXPECT_EQ(pairs[y][x] & 0xffff, 2000 * y + x);
      EXPECT_EQ(pairs[y][x] >> 16, 2000 * y + 1000 + x);
    }
  }
}

}  // namespace
}  // namespace tandem::testing
