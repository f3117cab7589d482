#pragma once

// Shared memory of a stem's kernels, of 16-bit elements.

#include <cstddef>

#include "layers/plans/stem_cuda.h"

namespace tandem {

/// Most threads of a block.
constexpr int stem_forward_threads = 256;
constexpr int stem_gradient_threads = 224;

/// Rows of y that a warp works on at once, forward.
constexpr int stem_rows_at_once = 2;
/// What a warp works on at once, in a tile.
constexpr int stem_items(const StemTiles& tiles) {
  return tiles.tile_rows / stem_rows_at_once * tiles.column_groups;
}

/// Elements from one filter to the next: an odd number of 16 bytes, so that those of eight filters
/// are in different banks. The same for pixels of the output's gradient.
constexpr int stem_filter_pitch(const StemTiles& tiles) { return tiles.depth() + 8; }
constexpr int stem_gradient_pitch(int block_columns) { return block_columns + 8; }
/// Pixels of y in a tile, those beside its rows too.
constexpr int stem_pixels(const StemTiles& tiles) {
  return tiles.tile_rows * tiles.column_groups * 16;
}

/// Of the rows of x that a tile takes.
constexpr int stem_row_elements(const StemTiles& tiles) {
  return tiles.patch_rows() * tiles.columns * 3;
}

inline std::size_t stem_forward_bytes(const StemTiles& tiles) {
  return 2 * static_cast<std::size_t>(tiles.block_columns * stem_filter_pitch(tiles) +
                                      tiles.patch_elements() + stem_row_elements(tiles));
}
inline std::size_t stem_gradient_bytes(const StemTiles& tiles) {
  return 2 * static_cast<std::size_t>(2 * stem_pixels(tiles) *
                                          stem_gradient_pitch(tiles.block_columns) +
                                      tiles.patch_elements() + stem_row_elements(tiles));
}

}  // namespace tandem
