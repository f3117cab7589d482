#pragma once

#include "device/any_context.h"
#include "tensor/tensor.h"

namespace tandem {

/// to = from, element by element, rounded to nearest even where `to` has fewer bits. Both lie in
/// the context's memory and hold as many elements; f32, f16 and bf16 on a CUDA device, f32 on the
/// CPU. Enqueued on a device.
void convert(AnyContext& context, const Tensor& from, const Tensor& to);

}  // namespace tandem
