#pragma once

#include "tensor/tensor.h"

namespace tandem {

/// Whether an f32 tensor in host memory holds neither NaN nor infinity.
bool all_finite(const Tensor& tensor);

}  // namespace tandem
