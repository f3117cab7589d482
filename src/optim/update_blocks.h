#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/optimizer.h"

namespace tandem {

/// A piece of a parameter slice: what one thread takes at a time. The cut depends on the slices
/// alone, so every element is computed by the same instructions, and every sum taken in the same
/// order, whatever the number of threads.
struct UpdateBlock {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  float weight_decay = 0.0F;
  std::size_t slice = 0;  ///< index of the slice that it is cut from
};

/// The blocks of all slices, in order.
std::vector<UpdateBlock> cut_blocks(std::span<const ParameterGroupSlice> slices);

}  // namespace tandem
