#pragma once

#include <cstdint>

#include "device/cpu_context.h"

namespace tandem {

/// A format of a convolution's weights in blocks of output and input channels: of each block all
/// positions of the window lie together.
struct WeightBlocks {
  std::int64_t outputs = 1;  ///< channels of a block
  std::int64_t inputs = 0;   ///< 0: all there are
  /// Whether a block's outputs lie together, input for input; else its inputs do.
  bool outputs_inside = false;
  /// Whether blocks with the same inputs lie together, else those with the same outputs.
  bool inputs_outside = false;
};

/// Moves a convolution's weights from their own order, (K, positions, C), into blocks and back.
/// oneDNN's reorders do the same and take half as long again (docs/benchmarks.md).
class BlockedWeights {
 public:
  /// Whether weights of this shape can be moved: blocks come out even, in tiles of 8 x 8.
  static bool fits(const WeightBlocks& blocks, std::int64_t outputs, std::int64_t inputs);

  BlockedWeights() = default;
  /// Of a shape that fits.
  BlockedWeights(const WeightBlocks& blocks, std::int64_t outputs, std::int64_t positions,
                 std::int64_t inputs);

  /// Whether there is a shape.
  bool defined() const { return outputs_ > 0; }
  /// Whether unpack() can be called: the blocks have their outputs inside.
  bool can_unpack() const { return defined() && blocks_.outputs_inside; }
  void pack(const CpuContext& context, const float* plain, float* blocked) const;
  /// `plain`, 16-byte aligned, is not left in the caches: a gradient is next read after others,
  /// and by other ranks.
  void unpack(const CpuContext& context, const float* blocked, float* plain) const;

 private:
  bool in_sixteens() const;
  template <int tile>
  void pack_tiles(const CpuContext& context, const float* plain, float* blocked) const;
  template <int tile>
  void unpack_tiles(const CpuContext& context, const float* blocked, float* plain) const;
  /// Calls `move` with the places of each tile x tile outputs and inputs of one position: among the
  /// plain weights, whose outputs lie positions * inputs apart, and among the blocks.
  template <int tile, typename Move>
  void for_tiles(const CpuContext& context, const Move& move) const;

  WeightBlocks blocks_;
  std::int64_t outputs_ = 0;
  std::int64_t positions_ = 0;
  std::int64_t inputs_ = 0;
};

}  // namespace tandem
