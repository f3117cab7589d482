#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// y += bias, over rows of bias.elements() columns; bias f32, y f32, f16 or bf16. Enqueued.
void add_bias(CudaContext& context, const Tensor& bias, const Tensor& y);

/// sums = the sum of dy's rows, f32: the gradient of a bias. The same bits every time. Scratch as
/// column_sums_scratch() says. Enqueued.
void column_sums(CudaContext& context, const Tensor& dy, const Tensor& sums, std::byte* scratch);
std::size_t column_sums_scratch(std::int64_t rows, std::int64_t columns);

}  // namespace tandem
