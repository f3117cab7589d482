#include "data/jpeg/cmyk.h"

#include <array>

namespace tandem {
namespace {

/// a * b / 255, rounded, for a and b in 0..255 (Blinn, "Three wrongs make a right", 1995).
constexpr int scaled(int a, int b) {
  const int t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

}  // namespace

Image from_cmyk(const Image& ink, bool inverted, int channels) {
  const std::size_t pixels = ink.pixels.size() / 4;
  Image image{ink.height, ink.width, channels,
              std::vector<std::uint8_t>(pixels * static_cast<std::size_t>(channels))};
  const int flip = inverted ? 0 : 255;
  for (std::size_t i = 0; i < pixels; ++i) {
    const std::uint8_t* cmyk = ink.pixels.data() + 4 * i;
    const int key = cmyk[3] ^ flip;
    const std::array<int, 3> rgb{scaled(cmyk[0] ^ flip, key), scaled(cmyk[1] ^ flip, key),
                                 scaled(cmyk[2] ^ flip, key)};
    if (channels == 1) {
      image.pixels[i] = luma(rgb[0], rgb[1], rgb[2]);
    } else {
      for (std::size_t c = 0; c < 3; ++c)
        image.pixels[3 * i + c] = static_cast<std::uint8_t>(rgb[c]);
    }
  }
  return image;
}

}  // namespace tandem
