#pragma once

// How pooling kernels go over an image, and which windows lie where.

#include <algorithm>
#include <cstdint>

#include "layers/pooling/pool2d.h"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"

namespace tandem {

/// Blocks that take a tile of pixels and a run of channel packs, so that neighbouring windows find
/// the elements that they share in the cache of their multiprocessor. Threads: x over packs, y over
/// columns, z over rows.
struct PoolTiles {
  std::uint32_t rows;
  std::uint32_t columns;
  std::uint32_t packs;
  std::uint32_t threads_x;
  std::uint32_t threads_y;
  std::uint32_t threads_z;
  FastDivisor across;
  FastDivisor down;
  FastDivisor runs;
  unsigned blocks;

  static constexpr int most_threads = 256;
  dim3 block() const { return {threads_x, threads_y, threads_z}; }
};

/// Over images (N, H, W, C) in packs of `width` channels.
inline PoolTiles plan_pool_tiles(const Shape& image, int width) {
  const std::int64_t packs = image[3] / width;
  const std::int64_t runs = (packs + 31) / 32;
  const std::int64_t x = (packs + runs - 1) / runs;
  const std::int64_t pixels = PoolTiles::most_threads / x;
  std::int64_t side = 1;  // a power of two: most images are multiples of one
  while (side * side < pixels) side *= 2;
  const std::int64_t y = std::min(image[2], side);
  const std::int64_t z = std::min({image[1], pixels / y, std::int64_t{64}});
  const std::int64_t across = (image[2] + y - 1) / y;
  const std::int64_t down = (image[1] + z - 1) / z;
  return {.rows = small_count(image[1]),
          .columns = small_count(image[2]),
          .packs = small_count(packs),
          .threads_x = static_cast<std::uint32_t>(x),
          .threads_y = static_cast<std::uint32_t>(y),
          .threads_z = static_cast<std::uint32_t>(z),
          .across = FastDivisor(across),
          .down = FastDivisor(down),
          .runs = FastDivisor(runs),
          .blocks = small_count(image[0] * runs * down * across)};
}

/// A thread's pixel and pack.
struct PoolPlace {
  std::int64_t image;
  int row;
  int column;
  int pack;
  bool inside;
};

__device__ __forceinline__ PoolPlace pool_place(const PoolTiles& tiles) {
  std::uint32_t rest = blockIdx.x;
  const std::uint32_t column = tiles.across.split(rest) * tiles.threads_y + threadIdx.y;
  const std::uint32_t row = tiles.down.split(rest) * tiles.threads_z + threadIdx.z;
  const std::uint32_t pack = tiles.runs.split(rest) * tiles.threads_x + threadIdx.x;
  return {.image = rest,
          .row = static_cast<int>(row),
          .column = static_cast<int>(column),
          .pack = static_cast<int>(pack),
          .inside = row < tiles.rows && column < tiles.columns && pack < tiles.packs};
}

/// The windows along one axis.
struct PoolAxis {
  int kernel;
  int stride;
  int padding;
  int input;
  int output;
  FastDivisor by_stride;

  /// Where window `index` begins; below 0 in the padding.
  __device__ __forceinline__ int begin(int index) const { return index * stride - padding; }
  /// The last window that covers the input's `position`, or a later one that was left out.
  __device__ __forceinline__ int last_over(int position) const {
    return static_cast<int>(by_stride.quotient(static_cast<std::uint32_t>(position + padding)));
  }
  /// Whether window `index` exists and covers `position`.
  __device__ __forceinline__ bool covers(int index, int position) const {
    return index >= 0 && index < output && begin(index) + kernel > position;
  }
};

inline PoolAxis pool_axis(const PoolGeometry& geometry, bool rows) {
  const std::size_t axis = rows ? 1 : 2;
  const auto narrow = [](std::int64_t extent) { return static_cast<int>(small_count(extent)); };
  return {.kernel = narrow(rows ? geometry.rows : geometry.columns),
          .stride = narrow(geometry.stride),
          .padding = narrow(geometry.padding),
          .input = narrow(geometry.input[axis]),
          .output = narrow(geometry.output[axis]),
          .by_stride = FastDivisor(geometry.stride)};
}

}  // namespace tandem
