#include "optim/update_blocks.h"

#include <algorithm>

namespace tandem {

std::vector<UpdateBlock> cut_blocks(std::span<const ParameterGroupSlice> slices,
                                    std::int64_t block_elements) {
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

std::int64_t block_elements_of(const AnyContext& context) {
  return is_host(context) ? host_block_elements : device_block_elements;
}

ContextTable<UpdateBlock> block_table(AnyContext& context,
                                      std::span<const ParameterGroupSlice> slices) {
  const std::vector<UpdateBlock> blocks = cut_blocks(slices, block_elements_of(context));
  return {context, blocks, "the optimizer's table of blocks"};
}

}  // namespace tandem
