#pragma once

#include <span>

#include "device/cpu_context.h"
#include "optim/peer_copies.h"
#include "optim/step_control.h"
#include "optim/update_blocks.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// One update of all blocks; see AdamW for the formula. What depends on the update's number alone
/// is worked out before. Everything but the numbers lies in the context's memory.
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
  const StepControl* control = nullptr;  ///< as in UpdateSettings
  Tensor weights{};                      ///< as in UpdateSettings
  PeerCopies peers{};                    ///< likewise
};

/// Puts what `control` says, unless null, in place of the update's own values.
constexpr void follow(const StepControl* control, AdamWUpdate& update) {
  if (control == nullptr) return;
  follow(control, update.learning_rate, update.gradient_scale);
  update.step_size = control->state.step_size;
  update.inverse_root_correction = control->state.inverse_root_correction;
}

void adamw_update(CpuContext& context, const AdamWUpdate& update);
void adamw_update(CudaContext& context, const AdamWUpdate& update);

}  // namespace tandem
