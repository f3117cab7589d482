#pragma once

#include <span>

#include "device/cpu_context.h"
#include "optim/update_blocks.h"

namespace tandem {

/// sums[i] = the sum of squares of block i of `values`, in double. `sums` has one element a block,
/// in host memory.
void square_sums(CpuContext& context, std::span<const UpdateBlock> blocks, const float* values,
                 std::span<double> sums);

}  // namespace tandem
