#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/any_context.h"
#include "optim/optimizer.h"
#include "optim/update_blocks.h"

namespace tandem {

/// The global norm of the gradients: the square root of the sum of squares of all elements that the
/// slices cover. Sums are in double, by block and then in the blocks' order, so the same gradients
/// give the same bits whatever the number of threads or ranks.
class GradientNorm {
 public:
  /// The slices lie in an arena of f32; the context outlives this.
  GradientNorm(AnyContext& context, std::span<const ParameterGroupSlice> slices);

  /// Of the whole arena `gradients`. Allocates nothing; waits for what is enqueued.
  double measure(const Tensor& gradients);

 private:
  AnyContext* context_;
  BlockTable blocks_;
  ContextTable<double> sums_;  // of each block
  std::vector<double> host_sums_;
};

/// What gradients of norm `norm` are multiplied by so that it does not exceed `max_norm`:
/// min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ does.
constexpr double clip_factor(double norm, double max_norm) {
  constexpr double against_zero = 1e-6;
  const double factor = max_norm / (norm + against_zero);
  return factor < 1.0 ? factor : 1.0;
}

}  // namespace tandem
