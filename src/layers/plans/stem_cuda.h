#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "layers/plans/convolution_problem.h"

namespace tandem {

class CudaContext;

/// Output rows of a tile that there are plans for. Which is the fastest depends on the shape.
inline constexpr std::array stem_rows{2, 4, 8};

/// How thread blocks share a stem, the first convolution of a model: of images with three channels,
/// which the libraries' kernels pad to eight or sixteen, in steps of two pixels.
///
/// A tile is some output rows of an image, whole. Its pixels of x lie in shared memory with a
/// fourth channel of zeros, zeros around the image too: a pixel then takes 8 bytes, a step of the
/// convolution 16, and four taps of a filter's row 32. So the operand of 16 output pixels and four
/// taps that tensor cores take, row after row 16 bytes apart, lies there as it is, and overlaps
/// with its neighbours': nothing is copied for each tap ("implicit matrix product"). Included by
/// sources only.
struct StemTiles {
  DType dtype = DType::bf16;
  int batch = 0;
  int rows = 0, columns = 0;          ///< of x
  int out_rows = 0, out_columns = 0;  ///< of y
  int out = 0;                        ///< channels
  int block_columns = 0;              ///< channels that kernels work on: 32 or 64
  int kernel = 0;
  int padding = 0;
  int left = 0;           ///< columns of zeros before the image: even, so that its pixels' pairs
                          ///< are 16-byte aligned
  int quads = 0;          ///< groups of four taps that hold a row of a filter, moved as the image
  int pitch = 0;          ///< pixels from one row of a tile's x to the next
  int tile_rows = 0;      ///< of y
  int column_groups = 0;  ///< of 16 pixels of y, side by side
  int row_tiles = 0;      ///< of an image
  int blocks = 0;
  int warps = 0;  ///< of a block, forward

  int tiles() const { return batch * row_tiles; }
  /// Elements of a filter's row, and of a filter, as kernels use them.
  constexpr int row_depth() const { return quads * 16; }
  constexpr int depth() const { return kernel * row_depth(); }
  /// The place within a row of a filter from which on its taps lie.
  constexpr int first_tap() const { return left - padding; }
  constexpr int patch_rows() const { return 2 * (tile_rows - 1) + kernel; }
  constexpr int patch_elements() const { return patch_rows() * pitch * 4; }
  /// Blocks of the weight's gradient have a warp for each row of the filters, several times where
  /// those are few.
  constexpr int gradient_shares() const { return kernel <= 3 ? 2 : 1; }
  /// Floats of all blocks' sums of the weight's gradient.
  std::size_t partials() const {
    return static_cast<std::size_t>(blocks) * static_cast<std::size_t>(gradient_shares()) *
           static_cast<std::size_t>(block_columns) * static_cast<std::size_t>(depth());
  }
};

/// Nothing where the kernels do not take the problem: it is of 16-bit elements, forward or the
/// weight's gradient, without groups of channels, of three channels in and at most 64 out, those in
/// packs of eight, of at most seven taps a side, in steps of two, and of images whose rows are
/// whole packs of eight pixels and fit into the device's shared memory.
std::optional<StemTiles> make_stem_tiles(const CudaContext& context,
                                         const ConvolutionProblem& problem, int tile_rows);

/// Operands as in ConvolutionProblem, 16-byte aligned.
void stem_forward(CudaContext& context, const StemTiles& tiles, const void* x, const void* weight,
                  void* y);
/// `partials`: room for tiles.partials() floats. Sums are in the same order in every run.
void stem_weight_gradient(CudaContext& context, const StemTiles& tiles, const void* x,
                          const void* output_gradient, float* partials, float* weight_gradient);

}  // namespace tandem
