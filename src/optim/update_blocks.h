#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "optim/context_table.h"
#include "optim/optimizer.h"

namespace tandem {

/// A piece of a parameter slice: what one thread of a CPU, or one thread block of a GPU, takes at a
/// time. The cut depends on the slices and the kind of context alone, so every element is computed
/// by the same instructions, and every sum taken in the same order, whatever the number of threads.
struct UpdateBlock {
  std::int64_t offset = 0;
  std::int64_t elements = 0;  ///< at most host_block_elements
  float weight_decay = 0.0F;
  std::size_t slice = 0;       ///< index of the slice that it is cut from
  bool read_unrounded = true;  ///< as in ParameterGroupSlice
};

/// 64 KiB of each arena: a few of them fit a core's second-level cache, and there are enough blocks
/// to share out evenly.
constexpr std::int64_t host_block_elements = 16384;
/// Four 16-byte accesses to each arena by each of 256 threads.
constexpr std::int64_t device_block_elements = 4096;

/// The blocks of all slices, in order, none longer than `block_elements`.
std::vector<UpdateBlock> cut_blocks(std::span<const ParameterGroupSlice> slices,
                                    std::int64_t block_elements);

/// The parts of the slices within the `elements` elements from `offset` on: what a rank updates
/// that has this share of the arena. For rules that look at each element alone.
std::vector<ParameterGroupSlice> slices_within(std::span<const ParameterGroupSlice> slices,
                                               std::int64_t offset, std::int64_t elements);

/// How long blocks are that the context's kernels work on.
std::int64_t block_elements_of(const AnyContext& context);

/// The blocks of all slices as the context's kernels want them, in its memory, in order.
class BlockTable {
 public:
  BlockTable(AnyContext& context, std::span<const ParameterGroupSlice> slices);

  std::span<const UpdateBlock> rows() const { return table_.rows(); }
  /// Those of the elements [begin, end). Throws Error where that cuts a block.
  std::span<const UpdateBlock> within(std::int64_t begin, std::int64_t end) const;

 private:
  std::vector<UpdateBlock> blocks_;
  ContextTable<UpdateBlock> table_;
};

}  // namespace tandem
