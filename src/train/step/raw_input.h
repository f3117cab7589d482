#pragma once

#include "data/input_cuda.h"
#include "data/raw_batch.h"
#include "train/step/device_input.h"

namespace tandem {

/// What raw batches are, and what a device makes of them.
struct RawInput {
  RawBatchLayout layout;
  InputSpec spec;
};

/// Device memory that a captured step takes for its batches: the images as the layers get them, and
/// raw ones: of each micro-batch the current one and the step's before, and those on their way.
constexpr std::size_t step_batch_bytes(std::size_t raw_bytes, std::size_t image_bytes,
                                       int accumulate) {
  const int batches = 2 * accumulate + DeviceInput::places(accumulate);
  return image_bytes + static_cast<std::size_t>(batches) * raw_bytes;
}

}  // namespace tandem
