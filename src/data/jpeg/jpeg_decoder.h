#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/image_source.h"

namespace tandem {

/// A JPEG whose header has been read. Its pixels, `channels` 1 (gray) or 3 (RGB), are decoded when
/// they are asked for, upright by the EXIF orientation. Baseline, progressive and arithmetic
/// coding; gray, YCbCr, RGB, CMYK and YCCK (inverted where an Adobe marker says so, as Photoshop
/// writes them). Colour is taken as it is: profiles are ignored.
///
/// Of a box, only the rows down to its end are decoded, and of these only the columns and blocks
/// that it shows are turned into pixels; they are the same pixels as the whole picture's. A box of
/// at least twice (4, 8 times) the pixels that are needed on both sides is decoded at a half (a
/// quarter, an eighth) by a smaller DCT.
///
/// Throws InputError with `name` and libjpeg's reason where the bytes are no JPEG, are truncated
/// (the end marker missing counts, whatever the box), or are damaged so that part of what is read
/// would be made up: damage below the box goes unseen. Stray bytes between markers, which lose
/// nothing, are passed over. A header that announces more pixels than its bytes can hold (1024 a
/// byte) is refused before memory is allocated.
class JpegImage final : public ImageSource {
 public:
  JpegImage(std::vector<std::uint8_t> bytes, int channels, std::string name);
  ~JpegImage() override;

  int height() const override;
  int width() const override;
  ImagePart read(const PixelRect& box, int least_height, int least_width) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The whole picture.
Image decode_jpeg(std::span<const std::uint8_t> bytes, int channels, const std::string& name);

}  // namespace tandem
