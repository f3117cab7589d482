#include <cstddef>

#include "optim/sgd_kernels.h"

namespace tandem {
namespace {

enum class Rule { plain, momentum, nesterov };

/// The rule is a template argument so that the inner loop has no branch and vectorises.
template <Rule rule>
void update_block(const SgdUpdate& update, const UpdateBlock& block) {
  float* const __restrict parameters = update.parameters + block.offset;
  const float* const __restrict gradients = update.gradients + block.offset;
  float* const __restrict buffer =
      rule == Rule::plain ? nullptr : update.momentum_buffer + block.offset;
  const float rate = update.learning_rate;
  const float scale = update.gradient_scale;
  const float momentum = update.momentum;
  const float decay = block.weight_decay;
#pragma omp simd
  for (std::int64_t i = 0; i < block.elements; ++i) {
    float step = scale * gradients[i] + decay * parameters[i];
    if constexpr (rule != Rule::plain) {
      const float velocity = momentum * buffer[i] + step;
      buffer[i] = velocity;
      step = rule == Rule::nesterov ? step + momentum * velocity : velocity;
    }
    parameters[i] -= rate * step;
  }
}

template <Rule rule>
void update_blocks(CpuContext& context, const SgdUpdate& update) {
  const auto count = static_cast<std::int64_t>(update.blocks.size());
#pragma omp parallel for schedule(static) num_threads(context.threads())
  for (std::int64_t i = 0; i < count; ++i) {
    update_block<rule>(update, update.blocks[static_cast<std::size_t>(i)]);
  }
}

}  // namespace

void sgd_update(CpuContext& context, const SgdUpdate& given) {
  if (skips(given.control)) return;
  SgdUpdate update = given;
  follow(update.control, update.learning_rate, update.gradient_scale);
  if (update.momentum_buffer == nullptr) {
    update_blocks<Rule::plain>(context, update);
  } else if (update.nesterov) {
    update_blocks<Rule::nesterov>(context, update);
  } else {
    update_blocks<Rule::momentum>(context, update);
  }
}

}  // namespace tandem
