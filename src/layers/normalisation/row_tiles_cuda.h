#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/normalisation/batch_norm.h"

namespace tandem {

/// How the thread blocks of a kernel share rows x channels, so that each thread keeps to the same
/// channels, whose coefficients or sums stay in registers, and moves full packs of neighbouring
/// elements whatever the number of channels. Where that is not divisible by the pack, so many rows
/// are taken for one that it is: 58 channels and packs of 8 make rows of 4 * 58 elements.
///
/// A block is `lanes` rows of `width` packs; blockIdx.x tells which packs, blockIdx.y which rows
/// and blockIdx.z of which group: all but `groups` and `apart` is of one group. Included by sources
/// only.
struct RowTiles {
  int rows = 0;  ///< taken for one; those left over are `tail`
  int tail = 0;  ///< elements behind the last full row, fewer than `period`
  int channels = 0;
  int fold = 0;    ///< 2^fold rows of the tensor are one row here
  int period = 0;  ///< elements of a row: channels << fold
  int packs = 0;   ///< of a row
  int width = 0;   ///< packs of a row that one block works on
  int lanes = 0;   ///< rows that a block works on at once
  int tiles = 0;   ///< blocks side by side, along a row
  int chunks = 0;  ///< blocks one below the other
  int groups = 1;
  std::int64_t apart = 0;  ///< elements from one group to the next

  int blocks() const { return tiles * chunks * groups; }
};

struct RowTileLimits {
  int pack = 1;             ///< elements, a power of two
  int threads = 256;        ///< of a block
  int max_width = 8;        ///< packs; even
  int rows_per_thread = 1;  ///< at least, where there are enough
  int max_blocks = 1;       ///< exceeded where tiles of all groups are more
};

RowTiles make_row_tiles(const BatchNormShape& shape, const RowTileLimits& limits);

}  // namespace tandem
