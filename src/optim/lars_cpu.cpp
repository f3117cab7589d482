#include <cstddef>

#include "optim/lars_kernels.h"

namespace tandem {
namespace {

void update_block(const LarsUpdate& update, const UpdateBlock& block) {
  float* const __restrict parameters = update.parameters + block.offset;
  const float* const __restrict gradients = update.gradients + block.offset;
  float* const __restrict buffer = update.momentum_buffer + block.offset;
  const float rate = update.rates[block.slice];
#pragma omp simd
  for (std::int64_t i = 0; i < block.elements; ++i) {
    const float step = update.gradient_scale * gradients[i] + block.weight_decay * parameters[i];
    const float velocity = update.momentum * buffer[i] + rate * step;
    buffer[i] = velocity;
    parameters[i] -= velocity;
  }
}

}  // namespace

void lars_update(CpuContext& context, const LarsUpdate& update) {
  const auto count = static_cast<std::int64_t>(update.blocks.size());
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    update_block(update, update.blocks[static_cast<std::size_t>(i)]);
  }
}

}  // namespace tandem
