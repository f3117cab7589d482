#pragma once

#include "tensor/tensor.h"

namespace tandem {

class CpuContext;
class CudaContext;

// What tensor/convert.h and tensor/finite.h do, for each kind of context.

void convert(CpuContext& context, const Tensor& from, const Tensor& to);
void convert(CudaContext& context, const Tensor& from, const Tensor& to);
bool all_finite(CpuContext& context, const Tensor& tensor);
bool all_finite(CudaContext& context, const Tensor& tensor);

}  // namespace tandem
