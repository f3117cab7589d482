#include "optim/update_blocks.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {

std::vector<UpdateBlock> cut_blocks(std::span<const ParameterGroupSlice> slices,
                                    std::int64_t block_elements) {
  std::vector<UpdateBlock> blocks;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const ParameterGroupSlice& slice = slices[i];
    for (std::int64_t done = 0; done < slice.elements; done += block_elements) {
      blocks.push_back({slice.offset + done, std::min(block_elements, slice.elements - done),
                        slice.weight_decay, i, slice.read_unrounded});
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

BlockTable::BlockTable(AnyContext& context, std::span<const ParameterGroupSlice> slices)
    : blocks_(cut_blocks(slices, block_elements_of(context))),
      table_(context, blocks_, "the optimizer's table of blocks") {}

std::span<const UpdateBlock> BlockTable::within(std::int64_t begin, std::int64_t end) const {
  const auto index_of = [&](std::int64_t element) {
    const auto block = std::ranges::lower_bound(blocks_, element, {}, &UpdateBlock::offset);
    if (block != blocks_.begin()) {
      const UpdateBlock& before = *std::prev(block);
      TANDEM_CHECK(before.offset + before.elements <= element,
                   "an update that begins or ends at element {}, within block [{}, +{})", element,
                   before.offset, before.elements);
    }
    return static_cast<std::size_t>(block - blocks_.begin());
  };
  const std::size_t first = index_of(begin);
  const std::size_t last = std::max(first, index_of(end));
  return rows().subspan(first, last - first);
}

}  // namespace tandem
