#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem {

/// A decoded image: rows from the top, pixels from the left, channels interleaved (HWC), 8 bits
/// each. `pixels` holds height * width * channels values; channels is 1 (gray) or 3 (RGB).
struct Image {
  int height = 0;
  int width = 0;
  int channels = 0;
  std::vector<std::uint8_t> pixels;
};

/// A rectangle of an image that somebody else owns. Rows lie `row_stride` bytes apart.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t row_stride = 0;
  int height = 0;
  int width = 0;
  int channels = 0;

  const std::uint8_t* row(int y) const { return pixels + y * row_stride; }
};

struct ImageExtents {
  int height = 0;
  int width = 0;

  bool operator==(const ImageExtents&) const = default;
};

/// A rectangle in pixels. Its corner may lie outside of the image that it is cut from.
struct PixelRect {
  int top = 0;
  int left = 0;
  int height = 0;
  int width = 0;

  bool operator==(const PixelRect&) const = default;
};

/// A rectangle whose edges may lie within pixels; (0, 0) is the first pixel's outer corner.
struct RealRect {
  double top = 0.0;
  double left = 0.0;
  double height = 0.0;
  double width = 0.0;
};

inline RealRect whole_of(int height, int width) {
  return {0.0, 0.0, static_cast<double>(height), static_cast<double>(width)};
}

inline ImageView view_of(const Image& image) {
  return {image.pixels.data(), std::ptrdiff_t{image.width} * image.channels, image.height,
          image.width, image.channels};
}

/// The part of `image` under `window`, which must lie inside it.
inline ImageView part_of(const ImageView& image, const PixelRect& window) {
  return {image.row(window.top) + std::ptrdiff_t{window.left} * image.channels, image.row_stride,
          window.height, window.width, image.channels};
}

/// The same pixels, rows one behind the other.
inline Image copy_of(const ImageView& view) {
  const std::ptrdiff_t values = std::ptrdiff_t{view.width} * view.channels;
  Image image{view.height, view.width, view.channels, {}};
  image.pixels.reserve(static_cast<std::size_t>(values * view.height));
  for (int y = 0; y < view.height; ++y) {
    image.pixels.insert(image.pixels.end(), view.row(y), view.row(y) + values);
  }
  return image;
}

/// Luma of ITU-R BT.601 in 16-bit fixed point, rounded: Pillow's conversion from RGB to "L".
constexpr std::uint8_t luma(int red, int green, int blue) {
  return static_cast<std::uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

}  // namespace tandem
