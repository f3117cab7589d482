#include "layers/plans/stem_memory.h"
#include "layers/plans/stem_patch_cuda.cuh"

namespace tandem {
namespace {

/// Starts to copy the tile's pixels of the output's gradient, row after row; zeros where there are
/// none.
template <typename T, int Columns>
__device__ __forceinline__ void start_gradient(const StemTiles& tiles, const stem::TilePlace& place,
                                               const T* gradient, T* to) {
  constexpr int packs = Columns / 8;
  const int width = tiles.column_groups * 16;
  for (int line = 0; line < tiles.tile_rows; ++line) {
    const int row = place.row + line;
    const T* const from = gradient + (std::int64_t{place.image} * tiles.out_rows + row) *
                                         tiles.out_columns * tiles.out;
    for (int i = static_cast<int>(threadIdx.x); i < width * packs;
         i += static_cast<int>(blockDim.x)) {
      const int column = i / packs;
      const int channel = i % packs * 8;
      const bool exists = row < tiles.out_rows && column < tiles.out_columns && channel < tiles.out;
      __pipeline_memcpy_async(to + (line * width + column) * stem_gradient_pitch(Columns) + channel,
                              exists ? from + column * tiles.out + channel : gradient, 16,
                              exists ? 0 : 16);
    }
  }
}

/// Sums of one row of all filters: a warp's.
template <typename T, int Columns, int Quads>
struct FilterRow {
  ProductFragment<T> products[Columns / 16][2 * Quads];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& of_filters : products) {
#pragma unroll
      for (auto& product : of_filters) product.clear();
    }
  }

  /// Adds what 16 pixels make of it.
  __device__ __forceinline__ void add(const T* gradient, const T* patch) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    RightFragments<T> right[Quads];
#pragma unroll
    for (int quad = 0; quad < Quads; ++quad) {
      right[quad].load_plain(patch + quad * 16, stem::patch_step, lane);
    }
#pragma unroll
    for (int m = 0; m < Columns / 16; ++m) {
      LeftFragment<T> left;
      left.load_transposed(gradient + m * 16, stem_gradient_pitch(Columns), lane);
#pragma unroll
      for (int i = 0; i < 2 * Quads; ++i) products[m][i].add(left, right[i / 2], i % 2);
    }
  }

  /// `to`: this row of the first filter; the next filter's is `depth` behind.
  __device__ __forceinline__ void store(float* to, int depth) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int m = 0; m < Columns / 16; ++m) {
#pragma unroll
      for (int i = 0; i < 2 * Quads; ++i) {
        float* const first = to + (m * 16 + lane / 4) * depth + i * 8 + lane % 4 * 2;
        const float(&sums)[4] = products[m][i].sums;
        *reinterpret_cast<float2*>(first) = {sums[0], sums[1]};
        *reinterpret_cast<float2*>(first + 8 * depth) = {sums[2], sums[3]};
      }
    }
  }
};

template <typename T, int Columns, int Quads>
__global__ void __launch_bounds__(stem_gradient_threads, 2)
    gradient_kernel(StemTiles tiles, int count, const T* __restrict__ x,
                    const T* __restrict__ gradient, float* __restrict__ partials) {
  extern __shared__ __align__(16) std::byte memory[];
  auto* const patch = reinterpret_cast<T*>(memory);
  T* const rows = patch + tiles.patch_elements();
  T* const stages = rows + stem_row_elements(tiles);
  const int stage_elements = stem_pixels(tiles) * stem_gradient_pitch(Columns);
  const int step = static_cast<int>(gridDim.x);
  const auto start = [&](int tile, int stage) {
    if (tile < count) {
      const stem::TilePlace place = stem::place_of(tiles, tile);
      stem::start_rows(tiles, place, x, rows);
      start_gradient<T, Columns>(tiles, place, gradient, stages + stage * stage_elements);
    }
    __pipeline_commit();
  };
  const int first = static_cast<int>(blockIdx.x);
  start(first, 0);
  stem::clear_patch(tiles, patch);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int line = warp % tiles.kernel;
  const int share = warp / tiles.kernel;
  FilterRow<T, Columns, Quads> sums;
  sums.clear();
  int stage = 0;
  for (int tile = first; tile < count; tile += step) {
    __pipeline_wait_prior(0);
    __syncthreads();  // behind the last tile's products, too
    stem::fill_patch(tiles, rows, patch);
    __syncthreads();
    start(tile + step, 1 - stage);
    const T* const pixels = stages + stage * stage_elements;
    for (int row = 0; row < tiles.tile_rows; ++row) {
      const T* const of_row =
          pixels + row * tiles.column_groups * 16 * stem_gradient_pitch(Columns);
      const T* const operand = stem::operand(tiles, patch, row, 0, line);
#pragma unroll 2
      for (int group = share; group < tiles.column_groups; group += tiles.gradient_shares()) {
        sums.add(of_row + group * 16 * stem_gradient_pitch(Columns),
                 operand + group * 16 * stem::patch_step);
      }
    }
    stage = 1 - stage;
  }
  const int slot = first * tiles.gradient_shares() + share;
  sums.store(partials + std::int64_t{slot} * Columns * tiles.depth() + line * tiles.row_depth(),
             tiles.depth());
}

constexpr int sum_width = 64;
constexpr int sum_segments = 8;

/// A column of threads adds up an element of all blocks' sums, of which the taps that exist are
/// stored.
__global__ void __launch_bounds__(sum_width* sum_segments)
    sum_kernel(StemTiles tiles, int slots, const float* __restrict__ partials,
               float* __restrict__ weight) {
  __shared__ float sums[sum_segments][sum_width];
  const int elements = tiles.block_columns * tiles.depth();  // a multiple of sum_width
  const int at = static_cast<int>(blockIdx.x) * sum_width + static_cast<int>(threadIdx.x);
  float sum = 0.0F;
#pragma unroll 8
  for (int slot = static_cast<int>(threadIdx.y); slot < slots; slot += sum_segments) {
    sum += partials[std::int64_t{slot} * elements + at];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0) return;
  float total = 0.0F;
#pragma unroll
  for (const auto& segment : sums) total += segment[threadIdx.x];
  const int filter = at / tiles.depth();
  const int in_filter = at - filter * tiles.depth();
  const int row = in_filter / tiles.row_depth();
  const int tap = (in_filter - row * tiles.row_depth()) / 4 - tiles.first_tap();
  const int channel = in_filter % 4;
  if (filter >= tiles.out || tap < 0 || tap >= tiles.kernel || channel == 3) return;
  weight[((filter * tiles.kernel + row) * tiles.kernel + tap) * 3 + channel] = total;
}

}  // namespace

void stem_weight_gradient(CudaContext& context, const StemTiles& tiles, const void* x,
                          const void* output_gradient, float* partials, float* weight_gradient) {
  stem::with_kernel(tiles, [&](auto element, auto columns, auto quads) {
    using T = decltype(element);
    auto* const kernel = &gradient_kernel<T, decltype(columns)::value, decltype(quads)::value>;
    const std::size_t bytes = stem_gradient_bytes(tiles);
    stem::allow_shared(kernel, bytes);
    const int warps = tiles.kernel * tiles.gradient_shares();
    kernel<<<static_cast<unsigned>(tiles.blocks), static_cast<unsigned>(warps * 32), bytes,
             context.stream()>>>(tiles, tiles.tiles(), static_cast<const T*>(x),
                                 static_cast<const T*>(output_gradient), partials);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  const int elements = tiles.block_columns * tiles.depth();
  sum_kernel<<<static_cast<unsigned>(elements / sum_width), dim3(sum_width, sum_segments), 0,
               context.stream()>>>(tiles, tiles.blocks * tiles.gradient_shares(), partials,
                                   weight_gradient);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
