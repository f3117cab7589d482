#include <cmath>
#include <cstddef>

#include "optim/adamw_kernels.h"

namespace tandem {
namespace {

void update_block(const AdamWUpdate& update, const UpdateBlock& block) {
  float* const __restrict parameters = update.parameters + block.offset;
  const float* const __restrict gradients = update.gradients + block.offset;
  float* const __restrict first = update.first_moment + block.offset;
  float* const __restrict second = update.second_moment + block.offset;
  const float decay = update.learning_rate * block.weight_decay;
#pragma omp simd
  for (std::int64_t i = 0; i < block.elements; ++i) {
    const float g = update.gradient_scale * gradients[i];
    const float m = update.beta1 * first[i] + update.one_minus_beta1 * g;
    const float v = update.beta2 * second[i] + update.one_minus_beta2 * g * g;
    first[i] = m;
    second[i] = v;
    const float deviation = std::sqrt(v) * update.inverse_root_correction + update.epsilon;
    const float decayed = parameters[i] - decay * parameters[i];
    parameters[i] = decayed - update.step_size * m / deviation;
  }
}

}  // namespace

void adamw_update(CpuContext& context, const AdamWUpdate& given) {
  if (skips(given.control)) return;
  AdamWUpdate update = given;
  follow(update.control, update);
  const auto count = static_cast<std::int64_t>(update.blocks.size());
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    update_block(update, update.blocks[static_cast<std::size_t>(i)]);
  }
}

}  // namespace tandem
