#pragma once

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

/// Whether an f32 tensor in host memory holds neither NaN nor infinity.
bool all_finite(const Tensor& tensor);

/// The same for a tensor of any floating type in the context's memory, after whatever was enqueued
/// there.
bool all_finite(AnyContext& context, const Tensor& tensor);

}  // namespace tandem
