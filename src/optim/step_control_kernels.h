#pragma once

#include <span>

#include "optim/step_decision.h"
#include "optim/update_blocks.h"

namespace tandem {

class CudaContext;

/// What prepare_update() works on; all of it but the rules lies in the context's memory.
struct UpdatePreparation {
  StepRules rules;
  const float* loss = nullptr;  ///< the step's summed loss, over all ranks
  std::span<const UpdateBlock> blocks;
  const float* gradients = nullptr;  ///< summed over all ranks
  std::span<double> block_sums;      ///< scratch, one a block; unused where nothing is measured
  StepControl* control = nullptr;
};

/// Decides on one update, see decide_step(): whether it is skipped, what gradients are multiplied
/// by, and how the loss scale goes on. Gradients are read once where the rules measure them, and
/// not at all where they do not; sums are in double in a fixed order.
void prepare_update(CpuContext& context, const UpdatePreparation& preparation);
void prepare_update(CudaContext& context, const UpdatePreparation& preparation);

}  // namespace tandem
