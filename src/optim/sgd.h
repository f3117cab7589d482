#pragma once

#include <vector>

#include "device/arena.h"
#include "optim/optimizer.h"
#include "optim/sgd_kernels.h"

namespace tandem {

struct SgdOptions {
  float momentum = 0.0F;
  /// Needs momentum > 0.
  bool nesterov = false;
};

/// Stochastic gradient descent by torch.optim.SGD's formula (dampening 0), one pass over the arena:
///
///     g = gradient_scale * gradient + weight_decay * parameter
///     m = momentum * m + g                      (m starts at zero, so the first m is g)
///     parameter -= learning_rate * (nesterov ? g + momentum * m : m)
///
/// and parameter -= learning_rate * g without momentum, which keeps no state. The result does not
/// depend on the number of threads.
class Sgd final : public Optimizer {
 public:
  Sgd(AnyContext& context, std::int64_t arena_elements, std::span<const ParameterGroupSlice> slices,
      const SgdOptions& options);

  std::string_view kind() const override { return "sgd"; }
  /// {"momentum", f32 of the arena's length}; empty without momentum.
  std::vector<OptimizerState> state() override;

 private:
  std::vector<Arena*> state_arenas() override { return {&momentum_}; }
  void update(AnyContext& context, float* parameters, const float* gradients,
              const UpdateSettings& settings) override;

  SgdOptions options_;
  BlockTable blocks_;
  Arena momentum_;
};

}  // namespace tandem
