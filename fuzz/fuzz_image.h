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

/// Reads every value, for the address sanitizer to see.
inline void touch(const ImageView& view) {
  volatile unsigned sum = 0;
  for (int y = 0; y < view.height; ++y) {
    for (int i = 0; i < view.width * view.channels; ++i) sum = sum + view.row(y)[i];
  }
}

}  // namespace tandem::fuzz
