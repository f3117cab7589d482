#pragma once

#include <vector>

#include "device/arena.h"
#include "optim/lars_kernels.h"
#include "optim/optimizer.h"
#include "optim/update_blocks.h"

namespace tandem {

struct LarsOptions {
  float momentum = 0.9F;
  /// The paper's eta; above 0.
  float trust_coefficient = 0.001F;
};

/// Layer-wise adaptive rate scaling (You, Gitman and Ginsburg 2017). For each slice, a parameter
/// tensor w with its gradient and ||.|| the Euclidean norm over it:
///
///     g = gradient_scale * gradient
///     ratio = trust_coefficient * ||w|| / (||g|| + weight_decay * ||w||)
///     m = momentum * m + learning_rate * ratio * (g + weight_decay * w)    (m starts at zero)
///     w -= m
///
/// The ratio is 1 where a slice says not to adapt, and where ||w|| or ||g|| is zero, as in a bias
/// at the start. Norms are summed in double in a fixed order: the result does not depend on the
/// number of threads.
class Lars final : public Optimizer {
 public:
  Lars(AnyContext& context, std::int64_t arena_elements,
       std::span<const ParameterGroupSlice> slices, const LarsOptions& options);

  std::string_view kind() const override { return "lars"; }
  /// {"momentum", f32 of the arena's length}.
  std::vector<OptimizerState> state() override;

 private:
  std::vector<Arena*> state_arenas() override { return {&momentum_}; }
  void update(AnyContext& context, float* parameters, const float* gradients,
              const UpdateSettings& settings) override;

  LarsOptions options_;
  BlockTable blocks_;
  ContextTable<LarsSlice> slices_;
  ContextTable<double> parameter_squares_;  // of each block
  ContextTable<double> gradient_squares_;
  ContextTable<float> rates_;  // of each slice
  Arena momentum_;
};

}  // namespace tandem
