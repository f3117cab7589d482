#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "device/open_context.h"

namespace tandem {

/// What a step needs of a device that has not so much, in bytes.
struct MemoryNeed {
  std::string_view what;   ///< "a training step"
  std::int64_t batch = 1;  ///< samples that it takes at once
  std::size_t state = 0;   ///< parameters, gradients, optimizer state, averages
  /// What grows with the batch, at least; 0: the state alone is too much.
  std::size_t activations = 0;
  /// `free`: what this step could have; for training, memory that the run has already included.
  /// Where ranks share the device, one rank's part.
  DeviceMemory memory;
  int ranks = 1;  ///< that share the device
};

/// About how many samples fit at once: activations grow with their number, and a tenth of the
/// memory is left for the rest (images, the evaluation, libraries). 0: not one.
std::int64_t fitting_batch(const MemoryNeed& need);

/// What is needed, what is there, how many samples fit, and `advice` on how to have fewer of them
/// at once, in one line.
std::string out_of_memory_text(const MemoryNeed& need, std::string_view advice);

}  // namespace tandem
