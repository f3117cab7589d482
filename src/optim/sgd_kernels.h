#pragma once

#include <cstdint>
#include <span>

#include "device/cpu_context.h"

namespace tandem {

/// A piece of a parameter slice: what one thread takes at a time. The cut depends on the slices
/// alone, so every element is computed by the same instructions whatever the number of threads.
struct SgdBlock {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  float weight_decay = 0.0F;
};

/// One update of all blocks; see Sgd for the formula.
struct SgdUpdate {
  std::span<const SgdBlock> blocks;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float momentum = 0.0F;
  bool nesterov = false;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* momentum_buffer = nullptr;  ///< null: no momentum
};

void sgd_update(CpuContext& context, const SgdUpdate& update);

}  // namespace tandem
