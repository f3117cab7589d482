#pragma once

#include <span>

#include "device/cpu_context.h"
#include "optim/update_blocks.h"

namespace tandem {

class CudaContext;

/// sums[i] = the sum of squares of block i of `values`, in double. Everything lies in the context's
/// memory; `sums` has one element a block.
void square_sums(CpuContext& context, std::span<const UpdateBlock> blocks, const float* values,
                 std::span<double> sums);
void square_sums(CudaContext& context, std::span<const UpdateBlock> blocks, const float* values,
                 std::span<double> sums);

}  // namespace tandem
