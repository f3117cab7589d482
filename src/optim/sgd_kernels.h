#pragma once

#include <cstdint>
#include <span>

#include "device/cpu_context.h"
#include "optim/peer_copies.h"
#include "optim/step_control.h"
#include "optim/update_blocks.h"
#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// One update of all blocks; see Sgd for the formula. Everything but the numbers lies in the
/// context's memory.
struct SgdUpdate {
  std::span<const UpdateBlock> blocks;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float momentum = 0.0F;
  bool nesterov = false;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* momentum_buffer = nullptr;      ///< null: no momentum
  const StepControl* control = nullptr;  ///< as in UpdateSettings
  Tensor weights{};                      ///< as in UpdateSettings
  PeerCopies peers{};                    ///< likewise
};

void sgd_update(CpuContext& context, const SgdUpdate& update);
void sgd_update(CudaContext& context, const SgdUpdate& update);

}  // namespace tandem
