#pragma once

// What a stem's kernels read of x, as StemTiles says.

#include <cuda_pipeline.h>

#include <cstdint>
#include <type_traits>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/matrix_fragments_cuda.cuh"
#include "layers/plans/stem_cuda.h"

namespace tandem {
namespace stem {

/// Where a tile lies.
struct TilePlace {
  int image;
  int row;  ///< of y, the first one
};

__device__ __forceinline__ TilePlace place_of(const StemTiles& tiles, int tile) {
  const int image = tile / tiles.row_tiles;
  return {image, (tile - image * tiles.row_tiles) * tiles.tile_rows};
}

/// Calls `use(line, i)` for each line and i < width, a warp a line: without divisions, of which
/// these kernels would have one for every few products.
template <typename Use>
__device__ __forceinline__ void for_lines(int lines, int width, const Use& use) {
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int line = static_cast<int>(threadIdx.x) / 32; line < lines; line += warps) {
    for (int i = static_cast<int>(threadIdx.x) % 32; i < width; i += 32) use(line, i);
  }
}

/// Clears what fill_patch() does not write.
template <typename T>
__device__ __forceinline__ void clear_patch(const StemTiles& tiles, T* patch) {
  auto* const words = reinterpret_cast<uint4*>(patch);
  for (int i = static_cast<int>(threadIdx.x); i < tiles.patch_elements() / 8;
       i += static_cast<int>(blockDim.x)) {
    words[i] = uint4{};
  }
}

/// Starts to copy the rows of x that a tile takes, as they are; zeros for those above and below.
template <typename T>
__device__ __forceinline__ void start_rows(const StemTiles& tiles, const TilePlace& place,
                                           const T* x, T* rows) {
  constexpr int pack = 8;
  const int width = tiles.columns * 3;
  const int first = 2 * place.row - tiles.padding;
  const T* const image = x + std::int64_t{place.image} * tiles.rows * width;
  for_lines(tiles.patch_rows(), width / pack, [&](int line, int i) {
    const int row = first + line;
    const bool exists = row >= 0 && row < tiles.rows;
    const T* const from = image + std::int64_t{row} * width + i * pack;
    __pipeline_memcpy_async(rows + line * width + i * pack, exists ? from : x, 16, exists ? 0 : 16);
  });
}

/// Lays them into the patch, with a fourth channel, two pixels a thread.
template <typename T>
__device__ __forceinline__ void fill_patch(const StemTiles& tiles, const T* rows, T* patch) {
  const int pairs = tiles.columns / 2;
  for_lines(tiles.patch_rows(), pairs, [&](int line, int i) {
    const auto* const words = reinterpret_cast<const unsigned*>(rows) + 3 * (line * pairs + i);
    const unsigned middle = words[1];
    const unsigned last = words[2];
    *reinterpret_cast<uint4*>(patch + (line * tiles.pitch + tiles.left + 2 * i) * 4) = {
        words[0], middle & 0xffffU, __funnelshift_r(middle, last, 16), last >> 16U};
  });
}

/// Where the operand of 16 output pixels begins; its rows are `patch_step` elements apart.
constexpr int patch_step = 8;
template <typename T>
__device__ __forceinline__ const T* operand(const StemTiles& tiles, const T* patch, int out_row,
                                            int column_group, int filter_row) {
  return patch + ((2 * out_row + filter_row) * tiles.pitch + 2 * fragment_rows * column_group) * 4;
}

/// Calls `use(T(), Columns, Quads)`, both integral constants.
template <typename Use>
void with_kernel(const StemTiles& tiles, const Use& use) {
  const auto with_quads = [&](auto element, auto columns) {
    if (tiles.quads == 1) {
      use(element, columns, std::integral_constant<int, 1>());
    } else {
      use(element, columns, std::integral_constant<int, 2>());
    }
  };
  const auto with_columns = [&](auto element) {
    if (tiles.block_columns == 32) {
      with_quads(element, std::integral_constant<int, 32>());
    } else {
      with_quads(element, std::integral_constant<int, 64>());
    }
  };
  tiles.dtype == DType::bf16 ? with_columns(__nv_bfloat16()) : with_columns(__half());
}

template <typename Kernel>
void allow_shared(Kernel* kernel, std::size_t bytes) {
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(bytes)));
}

}  // namespace stem
}  // namespace tandem
