#pragma once

#include <cstdint>
#include <span>

#include "device/cpu_context.h"
#include "optim/update_blocks.h"

namespace tandem {

/// One update of all blocks; see Sgd for the formula.
struct SgdUpdate {
  std::span<const UpdateBlock> blocks;
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
