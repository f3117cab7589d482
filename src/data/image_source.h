#pragma once

#include <utility>

#include "base/error.h"
#include "data/image.h"

namespace tandem {

/// Part of an image as an ImageSource read it: the box that was asked for lies at `box` in `view`,
/// which may be reduced and may show a little more than the box. The pixels are the source's, until
/// its next read().
struct ImagePart {
  ImageView view;
  RealRect box;
};

/// An image whose extents are known and whose pixels may have to be decoded yet: who needs only a
/// box of it need not wait for the rest.
class ImageSource {
 public:
  ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;
  virtual ~ImageSource() = default;

  virtual int height() const = 0;
  virtual int width() const = 0;

  /// The pixels of `box`, which must lie inside the image. A source that can decode at a reduced
  /// scale may do so as long as the box keeps at least least_height x least_width pixels. Throws
  /// InputError that names the image where what it has to read for that is broken.
  virtual ImagePart read(const PixelRect& box, int least_height, int least_width) = 0;

  /// All pixels at full scale.
  ImageView read_all() { return read({0, 0, height(), width()}, height(), width()).view; }
};

/// An image that is decoded already.
class DecodedImage final : public ImageSource {
 public:
  /// Throws Error where the pixels do not fit the extents.
  explicit DecodedImage(Image image) : image_(std::move(image)) {
    const auto values = std::int64_t{image_.height} * image_.width * image_.channels;
    TANDEM_CHECK((image_.channels == 1 || image_.channels == 3) && image_.height > 0 &&
                     image_.width > 0 && static_cast<std::int64_t>(image_.pixels.size()) == values,
                 "an image of {}x{}x{} with {} values", image_.height, image_.width,
                 image_.channels, image_.pixels.size());
  }

  int height() const override { return image_.height; }
  int width() const override { return image_.width; }
  ImagePart read(const PixelRect& box, int /*least_height*/, int /*least_width*/) override {
    return {part_of(view_of(image_), box), whole_of(box.height, box.width)};
  }

 private:
  Image image_;
};

/// An image that is decoded already, in memory that somebody else keeps for as long.
class ImageInMemory final : public ImageSource {
 public:
  /// Throws Error where it has no pixels, or not 1 or 3 channels.
  explicit ImageInMemory(const ImageView& image) : image_(image) {
    TANDEM_CHECK(
        (image.channels == 1 || image.channels == 3) && image.height > 0 && image.width > 0,
        "an image of {}x{}x{}", image.height, image.width, image.channels);
  }

  int height() const override { return image_.height; }
  int width() const override { return image_.width; }
  ImagePart read(const PixelRect& box, int /*least_height*/, int /*least_width*/) override {
    return {part_of(image_, box), whole_of(box.height, box.width)};
  }

 private:
  ImageView image_;
};

}  // namespace tandem
