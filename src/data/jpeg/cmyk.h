#pragma once

#include "data/image.h"

namespace tandem {

/// Light of an image of four inks (C, M, Y, K; 255 is full ink, or none where `inverted`):
/// R = (255 - C) * (255 - K) / 255 and so on; `channels` 3, or 1 for its luma.
Image from_cmyk(const Image& ink, bool inverted, int channels);

}  // namespace tandem
