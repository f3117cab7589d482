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

std::vector<ParameterGroupSlice> slices_within(std::span<const ParameterGroupSlice> slices,
                                               std::int64_t offset, std::int64_t elements) {
  std::vector<ParameterGroupSlice> parts;
  for (ParameterGroupSlice part : slices) {
    const std::int64_t begin = std::max(part.offset, offset);
    const std::int64_t end = std::min(part.offset + part.elements, offset + elements);
    if (begin >= end) continue;
    part.offset = begin;
    part.elements = end - begin;
    parts.push_back(part);
  }
  return parts;
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
