#pragma once

#include <vector>

#include "device/arena.h"
#include "optim/optimizer.h"
#include "optim/update_blocks.h"

namespace tandem {

/// Both betas are at least 0 and below 1, epsilon is above 0.
struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

/// Adam with decoupled weight decay (Loshchilov and Hutter 2019) as torch.optim.AdamW computes it,
/// one pass over the arena. With t the number of this update, from 1:
///
///     g = gradient_scale * gradient
///     parameter -= learning_rate * weight_decay * parameter
///     m = beta1 * m + (1 - beta1) * g                     (m and v start at zero)
///     v = beta2 * v + (1 - beta2) * g * g
///     parameter -= learning_rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// The result does not depend on the number of threads.
class AdamW final : public Optimizer {
 public:
  AdamW(AnyContext& context, std::int64_t arena_elements,
        std::span<const ParameterGroupSlice> slices, const AdamWOptions& options);

  std::string_view kind() const override { return "adamw"; }
  /// {"exp_avg", m}, {"exp_avg_sq", v}: f32 of the arena's length, under torch's names.
  std::vector<OptimizerState> state() override;
  void fill(HostControl& control, float learning_rate) const override;

 private:
  std::vector<Arena*> state_arenas() override { return {&first_moment_, &second_moment_}; }
  void update(AnyContext& context, float* parameters, const float* gradients,
              const UpdateSettings& settings) override;

  AdamWOptions options_;
  BlockTable blocks_;
  Arena first_moment_;
  Arena second_moment_;
};

}  // namespace tandem
