#include "optim/gradient_norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "optim/gradient_norm_kernels.h"

namespace tandem {

GradientNorm::GradientNorm(AnyContext& context, std::span<const ParameterGroupSlice> slices)
    : context_(&context), blocks_(cut_blocks(slices)), sums_(blocks_.size()) {}

double GradientNorm::measure(const Tensor& gradients) {
  std::visit([&](auto& device) { square_sums(device, blocks_, gradients.data<float>(), sums_); },
             *context_);
  return std::sqrt(std::accumulate(sums_.begin(), sums_.end(), 0.0));
}

double clip_factor(double norm, double max_norm) {
  constexpr double against_zero = 1e-6;
  return std::min(1.0, max_norm / (norm + against_zero));
}

}  // namespace tandem
