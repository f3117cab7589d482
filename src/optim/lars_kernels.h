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

/// A parameter tensor, which has a rate of its own: blocks [first_block, first_block + blocks).
struct LarsSlice {
  std::int64_t first_block = 0;
  std::int64_t blocks = 0;
  float weight_decay = 0.0F;
  bool adapt = true;
};

/// What lars_rates() works on: all but the numbers lies in the context's memory.
struct LarsRates {
  std::span<const LarsSlice> slices;
  std::span<const double> parameter_squares;  ///< sum of squares of each block
  std::span<const double> gradient_squares;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;
  float trust_coefficient = 0.0F;
  const StepControl* control = nullptr;  ///< as in UpdateSettings
  std::span<float> rates;                ///< of each slice
};

/// The rate of each slice: the learning rate times its trust ratio; see Lars.
void lars_rates(CpuContext& context, const LarsRates& rates);
void lars_rates(CudaContext& context, const LarsRates& rates);

/// One update of all blocks; see Lars for the formula. `rates` has the rate of each slice.
/// Everything but the numbers lies in the context's memory.
struct LarsUpdate {
  std::span<const UpdateBlock> blocks;
  std::span<const float> rates;
  float gradient_scale = 1.0F;
  float momentum = 0.0F;
  float* parameters = nullptr;
  const float* gradients = nullptr;
  float* momentum_buffer = nullptr;
  const StepControl* control = nullptr;  ///< as in UpdateSettings
  Tensor weights{};                      ///< as in UpdateSettings
  PeerCopies peers{};                    ///< none
};

void lars_update(CpuContext& context, const LarsUpdate& update);
void lars_update(CudaContext& context, const LarsUpdate& update);

}  // namespace tandem
