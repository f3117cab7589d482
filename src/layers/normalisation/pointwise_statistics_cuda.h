#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/plans/convolution_problem.h"

namespace tandem {

/// Output channels of a block that there are kernels for. Which is the fastest depends on the
/// channels.
inline constexpr std::array pointwise_columns{128, 64, 32};

/// How thread blocks share a 1x1 convolution's product of rows x in and in x out, of which each
/// also sums its part of the result's statistics. A block keeps the weights of its output channels
/// in shared memory and goes through the row tiles of one chunk. Included by sources only.
struct PointwiseTiles {
  DType dtype = DType::bf16;
  std::int64_t rows = 0;  ///< of a group: pixels
  int groups = 1;         ///< of rows, each with statistics of its own
  int in = 0;             ///< channels
  int out = 0;
  int columns = 0;               ///< output channels of a block
  int column_tiles = 0;          ///< side by side
  int row_tiles = 0;             ///< of a group
  int chunks = 0;                ///< blocks that share the row tiles of a group
  int stages = 0;                ///< row tiles in shared memory at once
  std::size_t shared_bytes = 0;  ///< of a block
  std::size_t most_shared = 0;   ///< that a block may have

  /// Floats of the blocks' sums.
  std::size_t partials() const {
    return std::size_t{2} * static_cast<std::size_t>(groups) * static_cast<std::size_t>(chunks) *
           static_cast<std::size_t>(out);
  }
  /// As BatchNormWork::counters.
  std::size_t counters() const {
    return static_cast<std::size_t>(groups) * static_cast<std::size_t>(column_tiles);
  }
};

/// Nothing where the kernel does not take the problem: it is of 16-bit elements, forward, has one
/// tap, no stride, border or groups of channels, channels in packs of eight, and so few of x that a
/// block's weights and two row tiles fit into the device's shared memory. The problem's rows are
/// `groups` times as many as a group's.
std::optional<PointwiseTiles> make_pointwise_tiles(const CudaContext& context,
                                                   const ConvolutionProblem& problem, int groups,
                                                   int columns);

/// y = x * weight^T, and what batch_norm_statistics() would make of y, in one kernel: y is not read
/// again for its sums. x, weight and y are 16-byte aligned and of the tiles' dtype; x (rows, in)
/// and y (rows, out), each group's behind the other's, weight (out, in). Sums are of y, rounded,
/// minus about its first row, which each block computes for itself.
void pointwise_with_statistics(CudaContext& context, const PointwiseTiles& tiles, const void* x,
                               const void* weight, void* y, const BatchNormStatistics& statistics,
                               const BatchNormWork& work);

}  // namespace tandem
