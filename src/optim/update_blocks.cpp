#include "optim/update_blocks.h"

#include <algorithm>

namespace tandem {

std::vector<UpdateBlock> cut_blocks(std::span<const ParameterGroupSlice> slices) {
  // 64 KiB of each arena: a few of them fit a core's second-level cache, and there are enough
  // blocks to share out evenly.
  constexpr std::int64_t block_elements = 16384;
  std::vector<UpdateBlock> blocks;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const ParameterGroupSlice& slice = slices[i];
    for (std::int64_t done = 0; done < slice.elements; done += block_elements) {
      blocks.push_back({slice.offset + done, std::min(block_elements, slice.elements - done),
                        slice.weight_decay, i});
    }
  }
  return blocks;
}

}  // namespace tandem
