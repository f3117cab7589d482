#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/image.h"

namespace tandem {

/// Decodes a JPEG to `channels` 1 (gray) or 3 (RGB) and turns it upright by its EXIF orientation.
/// Baseline, progressive and arithmetic coding; gray, YCbCr, RGB, CMYK and YCCK (inverted where an
/// Adobe marker says so, as Photoshop writes them). Colour is taken as it is: profiles are ignored.
///
/// Throws InputError with `name` and libjpeg's reason where the bytes are no JPEG, are truncated
/// (the end marker missing counts), or are damaged so that part of the picture would be made up.
/// Stray bytes between markers, which lose nothing, are passed over. A header that announces more
/// pixels than its bytes can hold (1024 a byte) is refused before memory is allocated.
Image decode_jpeg(std::span<const std::uint8_t> bytes, int channels, const std::string& name);

}  // namespace tandem
