#include "tensor/finite.h"

#include <algorithm>
#include <cmath>

namespace tandem {

bool all_finite(const Tensor& tensor) {
  return std::ranges::all_of(tensor.span<float>(),
                             [](float value) { return std::isfinite(value); });
}

}  // namespace tandem
