#pragma once

#include <cstddef>
#include <optional>

#include "layers/normalisation/row_tiles_cuda.h"
#include "tensor/dtype.h"

namespace tandem {

class CudaContext;

/// How the blocks of one kernel, a persistent one, share a tensor of rows x channels that they go
/// through twice: to sum over its rows, and to use the sums. Blocks stay on their multiprocessors
/// between the two and keep in shared memory what they read first, so that the second time less is
/// read again, and nothing waits for another kernel to start. Of one group. Included by sources
/// only.
struct PersistentTiles {
  RowTiles rows{};               ///< packs of 16 bytes, whose parts are as many as blocks
  int slots = 0;                 ///< packs that a thread keeps
  std::size_t shared_bytes = 0;  ///< of a block

  int parts() const { return rows.tiles * rows.chunks; }
  /// The share of the tensor that the blocks keep.
  double kept() const {
    const int step = rows.chunks * rows.lanes;
    const int of_a_thread = (rows.rows + step - 1) / step;
    return static_cast<double>(slots) / of_a_thread;
  }
  /// Floats of the parts' sums, and the channels' pivots behind them.
  std::size_t partials() const {
    return static_cast<std::size_t>(rows.period) *
           (std::size_t{2} * static_cast<std::size_t>(rows.chunks) + 1);
  }
  /// Zero before and after a kernel: parts taken, blocks that left, and each tile's parts summed.
  std::size_t counters() const { return 2 + static_cast<std::size_t>(rows.tiles); }
};

/// Nothing where channels do not come in packs of 16 bytes, there are several groups, or a block's
/// shared memory holds no slot.
std::optional<PersistentTiles> make_persistent_tiles(const CudaContext& context,
                                                     const BatchNormShape& shape, DType dtype);

}  // namespace tandem
