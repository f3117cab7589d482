#pragma once

#include <cstdint>
#include <span>

namespace tandem {

/// The orientation (1 to 8) that the payload of a JPEG APP1 marker carries: "Exif\0\0", a TIFF
/// header, and tag 0x0112 in the first image directory (Exif 2.3, section 4.6). 1 (upright) where
/// the payload is something else, damaged, or without the tag: cameras and editors write much that
/// is wrong here, and the image is good all the same. Reads nothing outside of `payload`.
int exif_orientation(std::span<const std::uint8_t> payload);

}  // namespace tandem
