#include "data/jpeg/orientation.h"

#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

/// Target pixel (y, x) comes from source (y, x), or (x, y) where the axes change places, counted
/// from the far end of an axis that is mirrored.
struct Turn {
  bool swaps;
  bool from_bottom;
  bool from_right;
};

Turn turn_of(int orientation) {
  return {orientation >= 5,
          orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7,
          orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8};
}

}  // namespace

Image upright(Image image, int orientation) {
  TANDEM_CHECK(orientation >= 1 && orientation <= 8, "no EXIF orientation {}", orientation);
  if (orientation == 1) return image;
  const auto [swaps, from_bottom, from_right] = turn_of(orientation);
  const auto channels = static_cast<std::size_t>(image.channels);
  const auto width = static_cast<std::size_t>(image.width);
  const auto height = static_cast<std::size_t>(image.height);
  Image turned{swaps ? image.width : image.height, swaps ? image.height : image.width,
               image.channels, std::vector<std::uint8_t>(image.pixels.size())};
  std::uint8_t* out = turned.pixels.data();
  for (std::size_t y = 0; y < static_cast<std::size_t>(turned.height); ++y) {
    for (std::size_t x = 0; x < static_cast<std::size_t>(turned.width); ++x, out += channels) {
      const std::size_t row = swaps ? x : y;
      const std::size_t column = swaps ? y : x;
      const std::size_t from_row = from_bottom ? height - 1 - row : row;
      const std::size_t from_column = from_right ? width - 1 - column : column;
      std::memcpy(out, image.pixels.data() + (from_row * width + from_column) * channels, channels);
    }
  }
  return turned;
}

RealRect upright_rect(const RealRect& box, double height, double width, int orientation) {
  const auto [swaps, from_bottom, from_right] = turn_of(orientation);
  const double top = from_bottom ? height - box.top - box.height : box.top;
  const double left = from_right ? width - box.left - box.width : box.left;
  if (swaps) return {left, top, box.width, box.height};
  return {top, left, box.height, box.width};
}

int inverse_orientation(int orientation) {
  if (orientation == 6) return 8;
  if (orientation == 8) return 6;
  return orientation;  // the others undo themselves
}

}  // namespace tandem
