#pragma once

#include "data/image.h"

namespace tandem::fuzz {

/// Whether an image holds as many bytes as its size says.
inline bool is_whole(const Image& image) {
  return image.height > 0 && image.width > 0 &&
         image.pixels.size() == std::size_t{1} * static_cast<unsigned>(image.height) *
                                    static_cast<unsigned>(image.width) *
                                    static_cast<unsigned>(image.channels);
}

}  // namespace tandem::fuzz
