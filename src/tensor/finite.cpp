#include "tensor/finite.h"

#include <algorithm>
#include <cmath>

#include "tensor/tensor_kernels.h"

namespace tandem {

bool all_finite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.span<float>(),
                             [](float value) { return std::isfinite(value); });
}

bool all_finite(CpuContext& /*context*/, const Tensor& tensor) { return all_finite(tensor); }

bool all_finite(AnyContext& context, const Tensor& tensor) {
  return std::visit([&](auto& device) { return all_finite(device, tensor); }, context);
}

}  // namespace tandem
