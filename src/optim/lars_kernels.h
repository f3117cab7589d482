#pragma once

#include <span>

#include "device/cpu_context.h"
#include "optim/update_blocks.h"

namespace tandem {

/// One update of all blocks; see Lars for the formula. `rates` has the rate of each slice.
struct LarsUpdate {
  std::span<const UpdateBlock> blocks;
  std::span<const float> rates;
  float gradient_scale = 1.0F;
  float momentum = 0.0F;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* momentum_buffer = nullptr;
};

void lars_update(CpuContext& context, const LarsUpdate& update);

}  // namespace tandem
