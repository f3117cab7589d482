#include "optim/gradient_norm.h"

#include <cmath>
#include <numeric>

#include "optim/gradient_norm_kernels.h"

namespace tandem {

GradientNorm::GradientNorm(AnyContext& context, std::span<const ParameterGroupSlice> slices)
    : context_(&context),
      blocks_(context, slices),
      sums_(context, blocks_.rows().size(), "the gradients' norms"),
      host_sums_(blocks_.rows().size()) {}

double GradientNorm::measure(const Tensor& gradients) {
  const std::span<double> sums = sums_.rows();
  std::visit(
      [&](auto& device) { square_sums(device, blocks_.rows(), gradients.data<float>(), sums); },
      *context_);
  copy_to_host(*context_, sums.data(), sums.size_bytes(), host_sums_.data());
  return std::sqrt(std::accumulate(host_sums_.begin(), host_sums_.end(), 0.0));
}

}  // namespace tandem
