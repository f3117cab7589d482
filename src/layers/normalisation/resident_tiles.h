#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "layers/normalisation/batch_norm.h"

namespace tandem {

/// How thread blocks share a tensor of rows x channels so small that their registers hold all of
/// it: one kernel can then sum over rows and use the sums, without reading anything twice. A tile
/// is `width` packs of neighbouring elements of every row; `blocks` blocks, a cluster, share its
/// rows and add up their sums. Groups of rows, each with sums of its own, have such tiles each: all
/// but `groups` is of one group. Included by sources only.
struct ResidentTiles {
  int pack = 1;  ///< elements that move at once
  int rows = 0;
  int channels = 0;
  int packs = 0;   ///< of a row
  int width = 0;   ///< packs of a tile, a power of two
  int lanes = 0;   ///< rows that a block works on at once
  int tiles = 0;   ///< side by side, along a row
  int blocks = 0;  ///< of each tile, a power of two
  int groups = 1;
  int threads = 0;  ///< of a block
};

/// Threads of a block, and of the small ones that several groups of few rows get, which would leave
/// most threads of the others without a row: of the small ones four run in the place of one.
constexpr int resident_threads = 512;
constexpr int small_resident_threads = 128;
/// Of each operand, what a thread keeps.
constexpr int resident_bytes = 64;
/// Of a row, in a tile: one sector of memory.
constexpr int resident_row_bytes = 32;

/// Most blocks that share a tile: as many as every device with clusters has. Larger ones would wait
/// for a larger part of the device to be free.
constexpr int most_resident_blocks = 8;

/// How many turns the clusters of several groups may take on a device; none waits for another.
/// Measured: in two turns one kernel is faster than two that both read the tensor, and than in
/// eight; with a single group it is slower in two already.
constexpr int most_resident_turns = 2;

/// What a device runs at once.
struct ResidentClusters {
  std::array<int, 4> of_blocks{};  ///< clusters of 1, 2, 4 and 8 blocks, which exchange their sums
  int small_blocks = 0;            ///< single ones
};

/// Nothing where the channels do not come in packs, or where the device cannot hold the tensor,
/// each block 32 KiB of it, in clusters that all run at once, or, of several groups, take
/// most_resident_turns. In as few turns as can be, of several groups by small blocks too, 8 KiB
/// each and none in a cluster.
std::optional<ResidentTiles> make_resident_tiles(const BatchNormShape& shape, int element_bytes,
                                                 const ResidentClusters& clusters);

}  // namespace tandem
