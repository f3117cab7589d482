#pragma once

#include <cstdint>

#include "layers/window.h"

// How the strips' kernels share out their work. A thread owns a pair of neighbouring channels,
// whose weights it keeps in registers, and walks down a strip of a few columns of an image, so that
// each row is read once. Threads beside each other in x own neighbouring pairs. An image's height
// may be cut into chunks to make enough work for the device.

namespace tandem::cuda_depthwise {

/// Whether the strips' kernels take it: 3x3 and 5x5 windows of stride 1 and 2, padded by half of
/// the window, over an even number of channels.
inline bool has_strips(const Window& window, std::int64_t channels) {
  return (window.kernel == 3 || window.kernel == 5) && (window.stride == 1 || window.stride == 2) &&
         window.padding == window.kernel / 2 && window.dilation == 1 && channels % 2 == 0;
}

struct StripPlan {
  int tiles;       ///< of channel pairs; a block works on one
  int pairs;       ///< in a tile: a block's threads in x
  int lanes;       ///< items that a block works on at once: its threads in y
  int blocks;      ///< per tile
  int strips;      ///< side by side in an image
  int chunks;      ///< one below the other
  int chunk_rows;  ///< the last may have fewer
  int items;       ///< batch * chunks * strips, strips fastest
};

/// Threads of a block at most.
constexpr int block_threads = 128;

/// What a kernel fixes.
struct StripKernel {
  int columns;          ///< of a strip
  int resident_blocks;  ///< that a multiprocessor holds at once, about
  /// Whether the grid is what the device holds at once, so that few blocks leave partial sums.
  bool one_wave;
};

/// Strips over `batch` images of `rows` x `columns` (the pixels that strips are counted in) and an
/// even number of channels.
StripPlan plan_strips(const StripKernel& kernel, int batch, int rows, int columns, int channels,
                      int multiprocessors);

}  // namespace tandem::cuda_depthwise
