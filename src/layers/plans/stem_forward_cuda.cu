#include "layers/plans/stem_memory.h"
#include "layers/plans/stem_patch_cuda.cuh"

namespace tandem {
namespace {

/// Rows of y that a warp works on at once, each 16 pixels.
constexpr int rows_at_once = stem_rows_at_once;

/// Filters in the order of dealt_row(), with zeros for the fourth channel and the taps beside them.
template <typename T>
__device__ __forceinline__ void load_filters(const StemTiles& tiles, const T* weight, T* filters) {
  const int depth = tiles.depth();
  const int pitch = stem_filter_pitch(tiles);
  for (int i = static_cast<int>(threadIdx.x); i < tiles.block_columns * depth;
       i += static_cast<int>(blockDim.x)) {
    const int place = i / depth;
    const int at = i - place * depth;
    const int filter = dealt_row(place);
    const int row = at / tiles.row_depth();
    const int tap = (at - row * tiles.row_depth()) / 4 - tiles.first_tap();
    const int channel = at % 4;
    const bool exists = filter < tiles.out && tap >= 0 && tap < tiles.kernel && channel < 3;
    filters[place * pitch + at] =
        exists ? weight[((filter * tiles.kernel + row) * tiles.kernel + tap) * 3 + channel]
               : from_float<T>(0.0F);
  }
}

/// 16 pixels of rows_at_once rows, all channels.
template <typename T, int Columns, int Quads>
__device__ __forceinline__ void multiply(
    const StemTiles& tiles, const T* patch, const T* filters, int row, int group,
    ProductFragment<T> (&products)[rows_at_once][Columns / 8]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pitch = stem_filter_pitch(tiles);
#pragma unroll
  for (auto& of_row : products) {
#pragma unroll
    for (auto& product : of_row) product.clear();
  }
  for (int line = 0; line < tiles.kernel; ++line) {
    const T* const from = stem::operand(tiles, patch, row, group, line);
#pragma unroll
    for (int quad = 0; quad < Quads; ++quad) {
      RightFragments<T> right[Columns / 16];
#pragma unroll
      for (int i = 0; i < Columns / 16; ++i) {
        right[i].load(filters + i * 16 * pitch + (line * Quads + quad) * 16, pitch, lane);
      }
#pragma unroll
      for (int f = 0; f < rows_at_once; ++f) {
        LeftFragment<T> left;
        left.load(from + f * 2 * tiles.pitch * 4 + quad * 16, stem::patch_step, lane);
#pragma unroll
        for (int i = 0; i < Columns / 8; ++i) products[f][i].add(left, right[i / 2], i % 2);
      }
    }
  }
}

template <typename T, int Columns>
__device__ __forceinline__ void store_row(const StemTiles& tiles,
                                          const ProductFragment<T> (&products)[Columns / 8],
                                          int group, T* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int column = group * fragment_rows + half * 8 + lane / 4;
    if (column >= tiles.out_columns) continue;
#pragma unroll
    for (int j = 0; j < Columns / dealt_columns; ++j) {
      const int channel = j * dealt_columns + lane % 4 * 8;
      if (channel >= tiles.out) continue;
      float values[8];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        values[2 * i] = products[4 * j + i].sums[2 * half];
        values[2 * i + 1] = products[4 * j + i].sums[2 * half + 1];
      }
      WaitingPack<T, 8>::of(values).store(y + std::int64_t{column} * tiles.out + channel);
    }
  }
}

template <typename T, int Columns, int Quads>
__global__ void __launch_bounds__(stem_forward_threads, 2)
    forward_kernel(StemTiles tiles, int count, const T* __restrict__ x,
                   const T* __restrict__ weight, T* __restrict__ y) {
  extern __shared__ __align__(16) std::byte memory[];
  auto* const filters = reinterpret_cast<T*>(memory);
  T* const patch = filters + Columns * stem_filter_pitch(tiles);
  T* const rows = patch + tiles.patch_elements();
  const int step = static_cast<int>(gridDim.x);
  const auto start = [&](int tile) {
    if (tile < count) stem::start_rows(tiles, stem::place_of(tiles, tile), x, rows);
    __pipeline_commit();
  };
  start(static_cast<int>(blockIdx.x));
  load_filters(tiles, weight, filters);
  stem::clear_patch(tiles, patch);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int tile = static_cast<int>(blockIdx.x); tile < count; tile += step) {
    const stem::TilePlace place = stem::place_of(tiles, tile);
    __pipeline_wait_prior(0);
    __syncthreads();  // behind the last tile's products, too
    stem::fill_patch(tiles, rows, patch);
    __syncthreads();
    start(tile + step);
    for (int item = warp; item < stem_items(tiles); item += static_cast<int>(blockDim.x) / 32) {
      const int pair = item / tiles.column_groups;
      const int group = item - pair * tiles.column_groups;
      ProductFragment<T> products[rows_at_once][Columns / 8];
      multiply<T, Columns, Quads>(tiles, patch, filters, pair * rows_at_once, group, products);
#pragma unroll
      for (int f = 0; f < rows_at_once; ++f) {
        const int row = place.row + pair * rows_at_once + f;
        if (row >= tiles.out_rows) break;
        store_row<T, Columns>(
            tiles, products[f], group,
            y + (std::int64_t{place.image} * tiles.out_rows + row) * tiles.out_columns * tiles.out);
      }
    }
  }
}

}  // namespace

void stem_forward(CudaContext& context, const StemTiles& tiles, const void* x, const void* weight,
                  void* y) {
  stem::with_kernel(tiles, [&](auto element, auto columns, auto quads) {
    using T = decltype(element);
    auto* const kernel = &forward_kernel<T, decltype(columns)::value, decltype(quads)::value>;
    const std::size_t bytes = stem_forward_bytes(tiles);
    stem::allow_shared(kernel, bytes);
    kernel<<<static_cast<unsigned>(tiles.blocks), static_cast<unsigned>(tiles.warps * 32), bytes,
             context.stream()>>>(tiles, tiles.tiles(), static_cast<const T*>(x),
                                 static_cast<const T*>(weight), static_cast<T*>(y));
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

}  // namespace tandem
