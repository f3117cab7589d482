#include <cmath>

#include "base/philox.h"
#include "data/jpeg/jpeg_decoder.h"
#include "data/jpeg_writer.h"

namespace tandem::testing {
namespace {

constexpr double close = 5.0;

/// Compares with expected(y, x, c).
template <typename Expected>
void expect_picture(const Image& image, int height, int width, int channels, double tolerance,
                    Expected&& expected) {
  ASSERT_EQ(image.height, height);
  ASSERT_EQ(image.width, width);
  ASSERT_EQ(image.channels, channels);
  double worst = 0.0;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        worst = std::max(worst, std::abs(at(image, y, x, c) - expected(y, x, c)));
      }
    }
  }
  EXPECT_LE(worst, tolerance);
}

TEST(Jpeg, DecodesColour) {
  const Image picture = smooth(37, 53, 3);
  const auto same = [&](int y, int x, int c) { return double(at(picture, y, x, c)); };
  for (const bool progressive : {false, true}) {
    const Bytes bytes = write_jpeg(picture, {.progressive = progressive});
    expect_picture(decode_jpeg(bytes, 3, "a.jpg"), 37, 53, 3, close, same);
    expect_picture(decode_jpeg(bytes, 1, "a.jpg"), 37, 53, 1, close, [&](int y, int x, int) {
      return 0.299 * same(y, x, 0) + 0.587 * same(y, x, 1) + 0.114 * same(y, x, 2);
    });
  }
  const Bytes rgb = write_jpeg(picture, {.stored = JCS_RGB, .adobe = true});
  expect_picture(decode_jpeg(rgb, 3, "a.jpg"), 37, 53, 3, close, same);
}

TEST(Jpeg, DecodesGray) {
  const Image picture = smooth(20, 31, 1);
  const Bytes bytes = write_jpeg(picture, {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE});
  for (const int channels : {1, 3}) {
    expect_picture(decode_jpeg(bytes, channels, "g.jpg"), 20, 31, channels, close,
                   [&](int y, int x, int) { return double(at(picture, y, x, 0)); });
  }
}

TEST(Jpeg, DecodesInk) {
  const Image ink = smooth(24, 40, 4);
  const auto light = [&](bool inverted, int y, int x, int c) {
    const auto part = [&](int channel) {
      const double value = at(ink, y, x, channel) / 255.0;
      return inverted ? value : 1.0 - value;
    };
    return 255.0 * part(c) * part(3);
  };
  for (const bool adobe : {false, true}) {
    for (const J_COLOR_SPACE stored : {JCS_CMYK, JCS_YCCK}) {
      // Only the Adobe marker can say YCCK.
      if (!adobe && stored == JCS_YCCK) continue;
      const Bytes bytes = write_jpeg(ink, {.in = JCS_CMYK, .stored = stored, .adobe = adobe});
      expect_picture(decode_jpeg(bytes, 3, "k.jpg"), 24, 40, 3, close,
                     [&](int y, int x, int c) { return light(adobe, y, x, c); });
      expect_picture(decode_jpeg(bytes, 1, "k.jpg"), 24, 40, 1, close, [&](int y, int x, int) {
        return 0.299 * light(adobe, y, x, 0) + 0.587 * light(adobe, y, x, 1) +
               0.114 * light(adobe, y, x, 2);
      });
    }
  }
}

TEST(Jpeg, AppliesOrientation) {
  const Image picture = smooth(16, 40, 3);
  // Orientation 6: the first stored row lies at the right, the first column at the top.
  const Bytes app1{'E',  'x', 'i', 'f', 0, 0, 'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0,
                   0x12, 1,   3,   0,   1, 0, 0,   0,   6,  0, 0, 0, 0, 0, 0, 0};
  expect_picture(decode_jpeg(write_jpeg(picture, {.app1 = app1}), 3, "o.jpg"), 40, 16, 3, close,
                 [&](int y, int x, int c) { return double(at(picture, 15 - x, y, c)); });
}

/// EXIF that says nothing but the orientation.
Bytes orientation_marker(int orientation) {
  return {'E', 'x',  'i', 'f', 0,
          0,   'I',  'I', 42,  0,
          8,   0,    0,   0,   1,
          0,   0x12, 1,   3,   0,
          1,   0,    0,   0,   static_cast<std::uint8_t>(orientation),
          0,   0,    0,   0,   0,
          0,   0};
}

/// Compares random boxes, read alone, with the same boxes of the whole picture, pixel by pixel.
void expect_boxes_of_the_whole(const Bytes& bytes, int channels, std::uint64_t seed) {
  const Image whole = decode_jpeg(bytes, channels, "box.jpg");
  JpegImage image(bytes, channels, "box.jpg");
  ASSERT_EQ(image.height(), whole.height);
  ASSERT_EQ(image.width(), whole.width);
  RandomStream random(seed);
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(static_cast<std::uint64_t>(bound)));
  };
  for (int i = 0; i < 60; ++i) {
    PixelRect box{below(whole.height), below(whole.width), 0, 0};
    box.height = 1 + below(whole.height - box.top);
    box.width = 1 + below(whole.width - box.left);
    const ImagePart part = image.read(box, box.height, box.width);
    ASSERT_EQ(part.view.height, box.height);
    ASSERT_EQ(part.view.width, box.width);
    ASSERT_EQ(part.box.top, 0.0);
    ASSERT_EQ(part.box.left, 0.0);
    for (int y = 0; y < box.height; ++y) {
      const auto* wanted = part_of(view_of(whole), box).row(y);
      ASSERT_TRUE(std::equal(wanted, wanted + box.width * channels, part.view.row(y)))
          << "row " << y << " of " << box.height << "x" << box.width << " at " << box.top << ","
          << box.left;
    }
  }
}

TEST(Jpeg, BoxesAreCutFromTheWhole) {
  const Image picture = pattern(61, 83, 3);
  for (const bool progressive : {false, true}) {
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}) {
      const Bytes bytes =
          write_jpeg(picture, {.progressive = progressive, .across = across, .down = down});
      SCOPED_TRACE(std::to_string(across) + "x" + std::to_string(down));
      expect_boxes_of_the_whole(bytes, 3, 1);
      expect_boxes_of_the_whole(bytes, 1, 2);
    }
  }
  expect_boxes_of_the_whole(
      write_jpeg(pattern(40, 50, 1), {.in = JCS_GRAYSCALE, .stored = JCS_GRAYSCALE}), 3, 3);
  expect_boxes_of_the_whole(
      write_jpeg(pattern(40, 50, 4), {.in = JCS_CMYK, .stored = JCS_YCCK, .adobe = true}), 3, 4);
}

TEST(Jpeg, BoxesFollowTheOrientation) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    expect_boxes_of_the_whole(
        write_jpeg(pattern(33, 70, 3),
                   {.app1 = orientation_marker(orientation), .across = 2, .down = 2}),
        3, 5);
  }
}

TEST(Jpeg, ReducedBoxesShowTheSamePlace) {
  const Image picture = smooth(400, 300, 3);
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes bytes = write_jpeg(picture, {.app1 = orientation_marker(orientation)});
    const Image whole = decode_jpeg(bytes, 3, "r.jpg");
    JpegImage image(bytes, 3, "r.jpg");
    for (const int least : {200, 60, 30, 15, 7}) {
      const PixelRect box{31, 17, 243, 255};
      const ImagePart part = image.read(box, least, least);
      const int reduction = least > 121 ? 1 : least > 60 ? 2 : least > 30 ? 4 : 8;
      EXPECT_EQ(part.box.height, 243.0 / reduction) << least;
      EXPECT_EQ(part.box.width, 255.0 / reduction);
      for (int y = 0; y < part.view.height; ++y) {
        for (int x = 0; x < part.view.width; ++x) {
          // The middle of the reduced pixel, in the whole picture.
          const double cy = 31 + (y + 0.5 - part.box.top) * reduction - 0.5;
          const double cx = 17 + (x + 0.5 - part.box.left) * reduction - 0.5;
          const int iy = std::clamp(static_cast<int>(cy), 0, whole.height - 1);
          const int ix = std::clamp(static_cast<int>(cx), 0, whole.width - 1);
          for (int c = 0; c < 3; ++c) {
            ASSERT_NEAR(part.view.row(y)[3 * x + c], at(whole, iy, ix, c), close + 1.0)
                << orientation << " " << least << " " << y << " " << x;
          }
        }
      }
    }
  }
}

TEST(Jpeg, TruncatedFilesAreRefusedWhateverTheBox) {
  const Bytes whole = write_jpeg(pattern(64, 64, 3), {});
  const Bytes cut(whole.begin(), whole.end() - 200);
  JpegImage image(cut, 3, "folder/cut.jpg");
  expect_input_error(
      [&] {
        image.read({0, 0, 8, 8}, 8, 8);
      },
      {"folder/cut.jpg: ", "Premature end of JPEG file"});
}

TEST(Jpeg, RefusesTruncatedFilesAtEveryLength) {
  for (const bool progressive : {false, true}) {
    const Bytes whole = write_jpeg(smooth(24, 24, 3), {.progressive = progressive});
    for (std::size_t kept = 0; kept < whole.size(); kept += kept + 40 < whole.size() ? 7 : 1) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      expect_input_error([&] { static_cast<void>(decode_jpeg(cut, 3, "folder/cut.jpg")); },
                         {"folder/cut.jpg: ", "JPEG ("});
    }
  }
}

TEST(Jpeg, RefusesWhatIsNoJpeg) {
  expect_input_error(
      [] {
        static_cast<void>(decode_jpeg(Bytes{0x89, 'P', 'N', 'G', 1, 2, 3}, 3, "p.jpg"));
      },
      {"p.jpg: ", "Not a JPEG file"});
}

TEST(Jpeg, RefusesMorePixelsThanTheFileCanHold) {
  Bytes bytes = write_jpeg(smooth(16, 16, 3), {});
  for (std::size_t i = 0; i + 9 < bytes.size(); ++i) {
    if (bytes[i] == 0xff && bytes[i + 1] == 0xc0) {
      bytes[i + 5] = bytes[i + 6] = bytes[i + 7] = bytes[i + 8] = 0xf0;
      break;
    }
  }
  expect_input_error([&] { static_cast<void>(decode_jpeg(bytes, 3, "bomb.jpg")); },
                     {"bomb.jpg: ", "61680x61680"});
}

TEST(Jpeg, SurvivesDamage) {
  const Bytes whole = write_jpeg(smooth(24, 24, 3), {.progressive = true});
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes damaged = whole;
    damaged[i] = static_cast<std::uint8_t>(damaged[i] ^ (1U << (i % 8)) ^ 0x80U);
    try {
      const Image image = decode_jpeg(damaged, 3, "d.jpg");
      EXPECT_EQ(image.pixels.size(), static_cast<std::size_t>(image.height * image.width * 3));
    } catch (const InputError&) {
      // Either is right: a flipped bit may still be a picture.
    }
  }
}

}  // namespace
}  // namespace tandem::testing
