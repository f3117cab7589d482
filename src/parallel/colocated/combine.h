#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallel/communicator.h"

namespace tandem {

/// result[i] = element i of all sources, combined in their order, for first <= i < last. Sources
/// and result begin with element 0 and do not overlap; elements are f32, i32, i64 or u8.
void combine(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::byte* result,
             std::int64_t first, std::int64_t last);

}  // namespace tandem
