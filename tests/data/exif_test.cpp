#include "data/jpeg/exif.h"

#include "data/jpeg/orientation.h"
#include "data/support.h"

namespace tandem::testing {
namespace {

/// An APP1 payload with some other tag before the orientation.
Bytes payload(bool big_endian, std::uint32_t orientation, std::uint32_t type = 3) {
  Bytes bytes{'E', 'x', 'i', 'f', 0, 0};
  const auto put = [&](std::uint32_t value, int width) {
    for (int i = 0; i < width; ++i) {
      const int shift = 8 * (big_endian ? width - 1 - i : i);
      bytes.push_back(static_cast<std::uint8_t>(value >> shift));
    }
  };
  put(big_endian ? 0x4d4d : 0x4949, 2);
  put(42, 2);
  put(8, 4);
  put(2, 2);
  put(0x0100, 2), put(4, 2), put(1, 4), put(640, 4);
  put(0x0112, 2), put(type, 2), put(1, 4), put(orientation, 2), put(0, 2);
  put(0, 4);
  return bytes;
}

TEST(Exif, ReadsBothByteOrders) {
  for (const bool big_endian : {false, true}) {
    for (std::uint32_t i = 1; i <= 8; ++i) {
      EXPECT_EQ(exif_orientation(payload(big_endian, i)), static_cast<int>(i));
    }
  }
}

TEST(Exif, TakesWhatIsWrongAsUpright) {
  EXPECT_EQ(exif_orientation({}), 1);
  EXPECT_EQ(exif_orientation(payload(true, 0)), 1);
  EXPECT_EQ(exif_orientation(payload(true, 9)), 1);
  EXPECT_EQ(exif_orientation(payload(true, 6, 7)), 1);
  for (const bool big_endian : {false, true}) {
    const Bytes whole = payload(big_endian, 6);
    for (std::size_t kept = 0; kept + 6 < whole.size(); ++kept) {
      // A copy of the exact length, so that the address sanitizer sees a read beyond it.
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(kept));
      EXPECT_EQ(exif_orientation(cut), 1) << kept;
    }
    for (std::size_t i = 0; i < 14; ++i) {
      Bytes damaged = whole;
      damaged[i] = 0xff;
      EXPECT_EQ(exif_orientation(damaged), 1) << i;
    }
  }
}

/// The standard's words: where the first stored row and column lie in the upright picture.
TEST(Exif, TurnsUpright) {
  const Image stored{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  const auto expect = [&](int orientation, int height, int width, const Bytes& pixels) {
    const Image image = upright(stored, orientation);
    EXPECT_EQ(image.height, height) << orientation;
    EXPECT_EQ(image.width, width) << orientation;
    EXPECT_EQ(image.pixels, pixels) << orientation;
  };
  expect(1, 2, 3, {1, 2, 3, 4, 5, 6});  // row 0 top, column 0 left
  expect(2, 2, 3, {3, 2, 1, 6, 5, 4});  // top, right
  expect(3, 2, 3, {6, 5, 4, 3, 2, 1});  // bottom, right
  expect(4, 2, 3, {4, 5, 6, 1, 2, 3});  // bottom, left
  expect(5, 3, 2, {1, 4, 2, 5, 3, 6});  // row 0 left, column 0 top
  expect(6, 3, 2, {4, 1, 5, 2, 6, 3});  // right, top
  expect(7, 3, 2, {6, 3, 5, 2, 4, 1});  // right, bottom
  expect(8, 3, 2, {3, 6, 2, 5, 1, 4});  // left, bottom
  EXPECT_EQ(upright(Image{1, 2, 3, {1, 2, 3, 4, 5, 6}}, 2).pixels, (Bytes{4, 5, 6, 1, 2, 3}));
}

}  // namespace
}  // namespace tandem::testing
