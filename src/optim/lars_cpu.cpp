#include <cstddef>

#include "optim/lars_kernels.h"
#include "optim/lars_rate.h"

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

void lars_rates(CpuContext& /*context*/, const LarsRates& rates) {
  for (std::size_t i = 0; i < rates.slices.size(); ++i) {
    const LarsSlice& slice = rates.slices[i];
    double parameters = 0.0;
    double gradients = 0.0;
    for (std::int64_t b = 0; b < slice.blocks; ++b) {
      const auto block = static_cast<std::size_t>(slice.first_block + b);
      parameters += rates.parameter_squares[block];
      gradients += rates.gradient_squares[block];
    }
    rates.rates[i] = lars_rate(rates, slice, parameters, gradients);
  }
}

void lars_update(CpuContext& context, const LarsUpdate& given) {
  if (skips(given.control)) return;
  LarsUpdate update = given;
  if (update.control != nullptr) update.gradient_scale = update.control->state.factor;
  const auto count = static_cast<std::int64_t>(update.blocks.size());
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    update_block(update, update.blocks[static_cast<std::size_t>(i)]);
  }
}

}  // namespace tandem
