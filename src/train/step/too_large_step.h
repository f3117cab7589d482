#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "device/open_context.h"
#include "train/fitting_samples.h"

namespace tandem {

/// A step that a device has not the memory for, as it turns out when it is made; in bytes.
struct TooLargeStep {
  std::string_view what;   ///< "a training step"
  std::int64_t batch = 1;  ///< samples that it takes at once
  int folded_ranks = 1;    ///< of which the batch holds a multiple
  std::size_t state = 0;   ///< parameters, gradients, optimizer state, averages
  /// What grows with the batch, at least; 0: the state alone is too much.
  std::size_t activations = 0;
  /// `free`: what this step could have; for training, memory that the run has already included.
  /// Where ranks share the device, one rank's part.
  DeviceMemory memory;
  int ranks = 1;  ///< that share the device
};

/// What is needed, what is there, about how many samples fit, activations growing with their
/// number, and `fewer` on how to have so few, in one line.
std::string too_large_step_text(const TooLargeStep& step, std::string_view fewer = fewer_samples);

}  // namespace tandem
