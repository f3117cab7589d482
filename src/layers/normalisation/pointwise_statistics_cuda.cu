#include <cuda_pipeline.h>

#include <algorithm>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_sums_cuda.cuh"
#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/plans/matrix_fragments_cuda.cuh"

namespace tandem {
namespace {

/// Pixels of a row tile.
constexpr int tile_rows = 128;
/// Output channels of a warp, dealt to its threads (dealt_row()).
constexpr int warp_columns = dealt_columns;
constexpr int pack = 8;

/// Elements from one row in shared memory to the next: 16 bytes more than a whole number of
/// fragments, an odd number of them, so that eight rows' are in different banks.
__host__ __device__ constexpr int pitch_of(int in) {
  return (in + fragment_depth - 1) / fragment_depth * fragment_depth + pack;
}

constexpr int threads = 256;
/// No less than a block's shared memory that is not dynamic.
constexpr std::size_t static_shared = 64;

/// How the warps of a block share its part of a row tile.
template <int Columns>
struct Tile {
  static constexpr int columns = Columns;
  static constexpr int across = columns / warp_columns;
  static constexpr int down = threads / 32 / across;
  static constexpr int fragments =
      tile_rows / down / fragment_rows;  ///< below each other, of a warp
  /// That a multiprocessor has registers for: they hold a warp's fragments.
  static constexpr int blocks = fragments == 4 ? 2 : 3;
};

/// Starts to copy `count` rows of `in` elements into shared memory, row i of it from row
/// `row_of(i)`; beyond `end` rows, and behind the elements, zeros.
template <typename T, typename RowOf>
__device__ __forceinline__ void copy_rows(T* to, const T* from, int count, std::int64_t end, int in,
                                          const RowOf& row_of) {
  const int pitch = pitch_of(in);
  const int packs = pitch / pack - 1;
  const int row_step = threads / packs;
  const int pack_step = threads - row_step * packs;
  int row = static_cast<int>(threadIdx.x) / packs;
  int at = static_cast<int>(threadIdx.x) - row * packs;
  while (row < count) {
    const std::int64_t source = row_of(row);
    const bool is_there = source < end && at * pack < in;
    __pipeline_memcpy_async(to + row * pitch + at * pack,
                            is_there ? from + source * in + at * pack : from, 16,
                            is_there ? 0 : 16);
    row += row_step;
    at += pack_step;
    if (at >= packs) {
      at -= packs;
      ++row;
    }
  }
}

/// What is subtracted before a column of the block is summed, of its thread: about the first row of
/// y. All blocks of a group come to the same bits.
template <int Columns, typename T>
__device__ __forceinline__ void store_pivots(const T* x, const T* weights, int in, float* pivots) {
  const int column = static_cast<int>(threadIdx.x);
  if (column < Columns) {
    const T* row = weights + dealt_place(column) * pitch_of(in);
    float sum = 0.0F;
    for (int i = 0; i < in; i += pack) {
      const auto a = WaitingPack<T, pack>::load(x + i);
      const auto b = WaitingPack<T, pack>::load(row + i);
#pragma unroll
      for (int j = 0; j < pack; ++j) sum = fmaf(a.get(j), b.get(j), sum);
    }
    pivots[column] = sum;
  }
  __syncthreads();
}

/// A warp's part of the tile.
template <typename S, typename T>
__device__ __forceinline__ void multiply(const T* rows, const T* weights, int in,
                                         ProductFragment<T> (&products)[S::fragments][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int pitch = pitch_of(in);
#pragma unroll
  for (auto& row : products) {
#pragma unroll
    for (auto& product : row) product.clear();
  }
#pragma unroll 2
  for (int depth = 0; depth < in; depth += fragment_depth) {
    RightFragments<T> right[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      right[i].load(weights + 2 * i * pack * pitch + depth, pitch, lane);
    }
#pragma unroll
    for (int f = 0; f < S::fragments; ++f) {
      LeftFragment<T> left;
      left.load(rows + f * fragment_rows * pitch + depth, pitch, lane);
#pragma unroll
      for (int i = 0; i < 4; ++i) products[f][i].add(left, right[i / 2], i % 2);
    }
  }
}

/// Sums of a thread's columns.
struct ColumnSums {
  float first[pack] = {};
  float second[pack] = {};
};

/// Stores the eight columns of one row that a thread has, and adds them to its sums.
template <typename T>
__device__ __forceinline__ void store_row(const ProductFragment<T> (&products)[4], int half, T* to,
                                          const float* pivots, ColumnSums& sums) {
  float values[pack];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = products[i].sums[2 * half];
    values[2 * i + 1] = products[i].sums[2 * half + 1];
  }
  const auto rounded = WaitingPack<T, pack>::of(values);
  rounded.store(to);
  // In shared memory: registers are what limits how many blocks a multiprocessor has.
  const auto low = Pack<float, 4>::load(pivots);
  const auto high = Pack<float, 4>::load(pivots + 4);
#pragma unroll
  for (int i = 0; i < pack; ++i) {
    const float d = rounded.get(i) - (i < 4 ? low.get(i) : high.get(i - 4));
    sums.first[i] += d;
    sums.second[i] = fmaf(d, d, sums.second[i]);
  }
}

/// The same of all rows that a thread has, every eighth, but none behind the first `left` rows.
template <typename S, typename T>
__device__ __forceinline__ void store_rows(const ProductFragment<T> (&products)[S::fragments][4],
                                           T* to, int out, std::int64_t left, const float* pivots,
                                           ColumnSums& sums) {
  const auto store_some = [&](auto is_inside) {
#pragma unroll
    for (int f = 0; f < S::fragments; ++f) {
#pragma unroll
      for (int half = 0; half < 2; ++half, to += 8 * out) {
        if (is_inside(f * fragment_rows + half * 8)) {
          store_row(products[f], half, to, pivots, sums);
        }
      }
    }
  };
  // By itself: a test for each row costs instructions, which these kernels are short of.
  if (left > S::fragments * fragment_rows - 8) return store_some([](int) { return true; });
  store_some([&](int row) { return row < left; });
}

/// The block's sums, from those of its threads: the same columns are in every fourth lane and in
/// the warps below each other. `shared` has 2 * down * columns floats.
template <typename S>
__device__ __forceinline__ void store_block_sums(const PointwiseTiles& tiles, ColumnSums& sums,
                                                 float* shared, float* partials) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  const int across = thread / 32 % S::across;
  const int down = thread / 32 / S::across;
#pragma unroll
  for (int i = 0; i < pack; ++i) {
#pragma unroll
    for (int apart = 4; apart < 32; apart *= 2) {
      sums.first[i] += __shfl_xor_sync(0xffffffffU, sums.first[i], apart);
      sums.second[i] += __shfl_xor_sync(0xffffffffU, sums.second[i], apart);
    }
    if (lane < 4) {
      const int column = across * warp_columns + lane * pack + i;
      shared[2 * down * S::columns + column] = sums.first[i];
      shared[(2 * down + 1) * S::columns + column] = sums.second[i];
    }
  }
  __syncthreads();
  if (thread >= 2 * S::columns) return;
  float sum = 0.0F;
#pragma unroll
  for (int d = 0; d < S::down; ++d) sum += shared[2 * d * S::columns + thread];
  const int quantity = thread / S::columns;
  const int column = static_cast<int>(blockIdx.x) * S::columns + thread % S::columns;
  if (column < tiles.out) {
    partials[(std::int64_t{2} * blockIdx.y + quantity) * tiles.out + column] = sum;
  }
}

/// All blocks' sums of the block's columns: `finish(channel, column, first, second)`, columns
/// counted from the block's first. `shared` has 4 * threads floats, 16-byte aligned.
template <typename S, typename Finish>
__device__ __forceinline__ void sum_chunks(const PointwiseTiles& tiles, const float* partials,
                                           float* shared, const Finish& finish) {
  constexpr int width = 4;  // columns of a thread
  constexpr int lanes = 2 * S::columns / width;
  constexpr int segments = threads / lanes;
  const int thread = static_cast<int>(threadIdx.x);
  const int segment = thread / lanes;
  const int quantity = thread % lanes * width / S::columns;
  const int column = thread % lanes * width % S::columns;
  const int channel = static_cast<int>(blockIdx.x) * S::columns + column;
  float4 sum{};
  if (channel < tiles.out) {
    const float* part = partials + std::int64_t{quantity} * tiles.out + channel;
#pragma unroll 8
    for (int chunk = segment; chunk < tiles.chunks; chunk += segments) {
      const float4 value =
          __ldcg(reinterpret_cast<const float4*>(part + std::int64_t{2} * chunk * tiles.out));
      sum.x += value.x;
      sum.y += value.y;
      sum.z += value.z;
      sum.w += value.w;
    }
  }
  reinterpret_cast<float4*>(shared)[thread] = sum;
  __syncthreads();
  const int mine = static_cast<int>(blockIdx.x) * S::columns + thread;
  if (thread >= S::columns || mine >= tiles.out) return;
  double first = 0.0;
  double second = 0.0;
#pragma unroll
  for (int s = 0; s < segments; ++s) {
    first += static_cast<double>(shared[2 * s * S::columns + thread]);
    second += static_cast<double>(shared[(2 * s + 1) * S::columns + thread]);
  }
  finish(mine, thread, first, second);
}

/// A block's shared memory.
template <typename T>
struct Memory {
  T* weights;  ///< of the block's output channels
  T* stages;   ///< row tiles
  float* pivots;
};

template <typename S, typename T>
__device__ __forceinline__ Memory<T> block_memory(const PointwiseTiles& tiles) {
  extern __shared__ __align__(16) std::byte memory[];
  const int pitch = pitch_of(tiles.in);
  auto* const weights = reinterpret_cast<T*>(memory);
  T* const stages = weights + S::columns * pitch;
  return {weights, stages, reinterpret_cast<float*>(stages + tiles.stages * tile_rows * pitch)};
}

/// Makes the block's columns of all row tiles of its chunk, while the next ones are on their way;
/// returns the thread's sums over them.
template <typename S, typename T>
__device__ __forceinline__ ColumnSums make_tiles(const PointwiseTiles& tiles, const T* x,
                                                 const T* weight, T* y, const Memory<T>& memory) {
  const int pitch = pitch_of(tiles.in);
  const int first_column = static_cast<int>(blockIdx.x) * S::columns;
  const int chunk = static_cast<int>(blockIdx.y);
  const auto start_tile = [&](int tile, int stage) {
    if (tile < tiles.row_tiles) {
      const std::int64_t begin = std::int64_t{tile} * tile_rows;
      copy_rows(memory.stages + stage * tile_rows * pitch, x, tile_rows, tiles.rows, tiles.in,
                [&](int row) { return begin + row; });
    }
    __pipeline_commit();
  };
  copy_rows(memory.weights, weight, S::columns, tiles.out, tiles.in,
            [&](int place) { return std::int64_t{first_column} + dealt_row(place); });
  for (int i = 0; i + 1 < tiles.stages; ++i) start_tile(chunk + i * tiles.chunks, i);

  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_column = warp % S::across * warp_columns;
  const int warp_row = warp / S::across * S::fragments * fragment_rows;
  const int column = warp_column + lane % 4 * pack;
  const bool is_inside = first_column + column < tiles.out;
  ColumnSums sums;
  bool is_first = true;
  int stage = 0;
  for (int tile = chunk; tile < tiles.row_tiles; tile += tiles.chunks) {
    // The newest of stages - 1 tiles may still be on its way.
    tiles.stages == 3 ? __pipeline_wait_prior(1) : __pipeline_wait_prior(0);
    __syncthreads();
    start_tile(tile + (tiles.stages - 1) * tiles.chunks, (stage + tiles.stages - 1) % tiles.stages);
    if (is_first) store_pivots<S::columns>(x, memory.weights, tiles.in, memory.pivots);
    is_first = false;
    ProductFragment<T> products[S::fragments][4];
    multiply<S>(memory.stages + (stage * tile_rows + warp_row) * pitch,
                memory.weights + warp_column * pitch, tiles.in, products);
    if (is_inside) {
      const std::int64_t row = std::int64_t{tile} * tile_rows + warp_row + lane / 4;
      store_rows<S>(products, y + row * tiles.out + first_column + column, tiles.out,
                    tiles.rows - row, memory.pivots + column, sums);
    }
    stage = (stage + 1) % tiles.stages;
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  return sums;
}

template <typename T, typename S>
__global__ void __launch_bounds__(threads, S::blocks)
    pointwise_kernel(PointwiseTiles tiles, const T* __restrict__ x, const T* __restrict__ weight,
                     T* __restrict__ y, StatisticsFinish finish, ChannelSums sums,
                     double* rank_sums) {
  const Memory<T> memory = block_memory<S, T>(tiles);
  const std::int64_t group = blockIdx.z;
  ColumnSums own = make_tiles<S>(tiles, x + group * tiles.rows * tiles.in, weight,
                                 y + group * tiles.rows * tiles.out, memory);
  auto* const shared = reinterpret_cast<float*>(memory.stages);  // no tile is left there
  float* const partials = sums.partials + 2 * group * tiles.chunks * tiles.out;
  store_block_sums<S>(tiles, own, shared, partials);
  unsigned* const counter = sums.counters + group * gridDim.x + blockIdx.x;
  if (!channel_sums::is_last(counter, gridDim.y)) return;
  sum_chunks<S>(tiles, partials, shared, [&](int channel, int place, double sum, double squares) {
    const auto pivot = static_cast<double>(memory.pivots[place]);
    if (rank_sums != nullptr) {
      store_rank_sums(rank_sums, tiles.out, channel, static_cast<double>(tiles.rows), sum, squares,
                      pivot);
    } else {
      finish_statistics(finish, channel, sum * finish.per_row, squares * finish.per_row, pivot);
    }
  });
}

/// Calls `use(T(), Tile<...>())`.
template <typename Use>
void with_kernel(const PointwiseTiles& tiles, const Use& use) {
  const auto with_tile = [&](auto element) {
    switch (tiles.columns) {
      case 32:
        return use(element, Tile<32>());
      case 64:
        return use(element, Tile<64>());
      default:
        return use(element, Tile<128>());
    }
  };
  tiles.dtype == DType::bf16 ? with_tile(__nv_bfloat16()) : with_tile(__half());
}

template <typename T, typename S>
auto* kernel_with_memory(const PointwiseTiles& tiles) {
  auto* const kernel = pointwise_kernel<T, S>;
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(tiles.most_shared)));
  return kernel;
}

int blocks_on_multiprocessor(const PointwiseTiles& tiles) {
  int blocks = 0;
  with_kernel(tiles, [&](auto element, auto tile) {
    TANDEM_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, kernel_with_memory<decltype(element), decltype(tile)>(tiles), threads,
        tiles.shared_bytes));
  });
  return blocks;
}

std::size_t shared_bytes(const PointwiseTiles& tiles) {
  const int rows = tiles.columns + tiles.stages * tile_rows;
  return static_cast<std::size_t>(rows * pitch_of(tiles.in)) * size_of(tiles.dtype) +
         static_cast<std::size_t>(tiles.columns) * sizeof(float);
}

/// As many blocks on a multiprocessor as fit, then as many stages; returns the blocks, 0 where none
/// fits.
int choose_stages(PointwiseTiles& tiles) {
  PointwiseTiles best = tiles;
  int most = 0;
  for (const int stages : {3, 2}) {
    tiles.stages = stages;
    tiles.shared_bytes = shared_bytes(tiles);
    if (tiles.shared_bytes > tiles.most_shared) continue;
    const int blocks = blocks_on_multiprocessor(tiles);
    if (blocks <= most) continue;
    most = blocks;
    best = tiles;
  }
  tiles = best;
  return most;
}

bool is_pointwise(const ConvolutionProblem& problem) {
  const Window& window = problem.window;
  return problem.operation == ConvolutionOperation::forward && problem.groups == 1 &&
         window.kernel == 1 && window.stride == 1 && window.padding == 0 &&
         size_of(problem.dtype()) == 2 && problem.channels % pack == 0 &&
         problem.out_channels % pack == 0;
}

}  // namespace

std::optional<PointwiseTiles> make_pointwise_tiles(const CudaContext& context,
                                                   const ConvolutionProblem& problem, int groups,
                                                   int columns) {
  if (!is_pointwise(problem)) return std::nullopt;
  context.activate();
  int most_shared = 0;
  TANDEM_CUDA_CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                           context.device().index));
  PointwiseTiles tiles{.dtype = problem.dtype(),
                       .rows = problem.pixels() / groups,
                       .groups = groups,
                       .in = static_cast<int>(problem.channels),
                       .out = static_cast<int>(problem.out_channels),
                       .columns = columns,
                       .most_shared = static_cast<std::size_t>(most_shared) - static_shared};
  const int blocks = choose_stages(tiles);
  if (blocks == 0) return std::nullopt;
  tiles.column_tiles = (tiles.out + columns - 1) / columns;
  tiles.row_tiles = static_cast<int>((tiles.rows + tile_rows - 1) / tile_rows);
  const int places = blocks * context.device().multiprocessors;
  const int most = std::max(1, places / (tiles.column_tiles * groups));
  const int turns = (tiles.row_tiles + most - 1) / most;
  tiles.chunks = (tiles.row_tiles + turns - 1) / turns;
  return tiles;
}

void pointwise_with_statistics(CudaContext& context, const PointwiseTiles& tiles, const void* x,
                               const void* weight, void* y, const BatchNormStatistics& statistics,
                               const BatchNormWork& work) {
  const dim3 grid(static_cast<unsigned>(tiles.column_tiles), static_cast<unsigned>(tiles.chunks),
                  static_cast<unsigned>(tiles.groups));
  with_kernel(tiles, [&](auto element, auto tile) {
    using T = decltype(element);
    auto* const kernel = kernel_with_memory<T, decltype(tile)>(tiles);
    kernel<<<grid, threads, tiles.shared_bytes, context.stream()>>>(
        tiles, static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<T*>(y),
        finish_of(statistics), {reinterpret_cast<float*>(work.partials), work.counters},
        work.rank_sums);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

}  // namespace tandem
