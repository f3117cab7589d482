#pragma once

#include <span>

#include "device/cpu_context.h"
#include "optim/update_blocks.h"

namespace tandem {

/// One update of all blocks; see AdamW for the formula. What depends on the update's number alone
/// is worked out before.
struct AdamWUpdate {
  std::span<const UpdateBlock> blocks;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float beta1 = 0.0F;
  float one_minus_beta1 = 1.0F;
  float beta2 = 0.0F;
  float one_minus_beta2 = 1.0F;
  float epsilon = 0.0F;
  float step_size = 0.0F;                ///< learning_rate / (1 - beta1^t)
  float inverse_root_correction = 1.0F;  ///< 1 / sqrt(1 - beta2^t)
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;
};

void adamw_update(CpuContext& context, const AdamWUpdate& update);

}  // namespace tandem
