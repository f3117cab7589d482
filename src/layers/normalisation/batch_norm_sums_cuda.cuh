#pragma once

// Two sums per channel over all rows in one kernel: each thread sums its rows, each block its
// threads, and the last block that gets done all blocks. The order of the additions depends on the
// shape alone.

#include "layers/normalisation/row_tiles_cuda.cuh"

namespace tandem {

/// Of kernels that sum over channels.
constexpr int sum_threads = 512;

/// Memory of such a kernel.
struct ChannelSums {
  float* partials = nullptr;     ///< channel_sum_floats()
  unsigned* counters = nullptr;  ///< channel_sum_counters() of them, zero before and after
};

inline std::size_t channel_sum_floats(const RowTiles& tiles) {
  return std::size_t{2} * static_cast<std::size_t>(tiles.chunks) *
         static_cast<std::size_t>(tiles.period) * static_cast<std::size_t>(tiles.groups);
}

/// Each group's tiles count their blocks; behind those, each tile its groups.
inline int channel_sum_counters(const RowTiles& tiles) { return tiles.tiles * (tiles.groups + 1); }

/// Tiles of a kernel that sums; no more than `max_blocks` blocks where the channels allow it.
inline RowTiles channel_sum_tiles(const BatchNormShape& shape, int pack, int max_blocks) {
  // Narrow tiles leave few blocks, each with many rows, for the last block to sum.
  return make_row_tiles(shape, {.pack = pack,
                                .threads = sum_threads,
                                .max_width = pack == 1 ? 32 : 8,
                                .rows_per_thread = 2,
                                .max_blocks = max_blocks});
}

namespace channel_sums {

/// Most channels that a block sums: those of a tile.
constexpr int max_columns = 64;

/// Adds up a block's threads and stores the sums as the block's part.
template <int V>
__device__ __forceinline__ void store_block(const RowTiles& tiles, const TilePlace& place,
                                            const float (&first)[V], const float (&second)[V],
                                            float* shared, float* partials) {
  const int thread = static_cast<int>(threadIdx.x);
  const int width = tiles.width * V;
  if (place.lane < tiles.lanes) {
    float* mine = shared + thread * V;
    constexpr int pack = V % 4 == 0 ? 4 : 1;
#pragma unroll
    for (int i = 0; i < V; i += pack) {
      Pack<float, pack> of_first;
      Pack<float, pack> of_second;
#pragma unroll
      for (int j = 0; j < pack; ++j) {
        of_first.set(j, first[i + j]);
        of_second.set(j, second[i + j]);
      }
      of_first.store(mine + i);
      of_second.store(mine + tiles.lanes * width + i);
    }
  }
  __syncthreads();
  const int columns = 2 * width;
  const int segments = sum_threads / columns;
  const int column = thread % columns;
  const int segment = thread / columns;
  float sum = 0.0F;
  if (segment < segments) {
    const bool is_second = column >= width;
    const float* from = shared + (is_second ? (tiles.lanes - 1) * width + column : column);
#pragma unroll 4
    for (int lane = segment; lane < tiles.lanes; lane += segments) sum += from[lane * width];
  }
  __syncthreads();
  shared[thread] = sum;
  __syncthreads();
  if (thread < columns) {
    float total = 0.0F;
    for (int s = 0; s < segments; ++s) total += shared[s * columns + thread];
    const int quantity = thread >= width ? 1 : 0;
    const int at = place.tile * width + thread - quantity * width;
    if (at < tiles.period) {
      partials[(std::int64_t{place.chunk} * 2 + quantity) * tiles.period + at] = total;
    }
  }
}

/// Whether this block is the last of `blocks` to come here; what the others wrote before is then
/// visible to it.
__device__ __forceinline__ bool is_last(unsigned* counter, unsigned blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(counter, 1U) == blocks - 1;
    if (last) *counter = 0;
  }
  __syncthreads();
  if (last) __threadfence();
  return last;
}

/// Adds up all blocks' parts of at most max_columns channels from `from` on, W neighbouring columns
/// a thread, and calls `finish(channel, first, second)` with each one's sums.
template <int W, typename Finish>
__device__ __forceinline__ void sum_columns(const RowTiles& tiles, int from, int count,
                                            const float* partials, float* shared,
                                            const Finish& finish) {
  const int thread = static_cast<int>(threadIdx.x);
  const int parts = tiles.chunks << tiles.fold;
  const int mask = (1 << tiles.fold) - 1;
  const int columns = 2 * count;
  const int lanes = columns / W;
  const int segments = sum_threads / lanes;
  const int segment = thread / lanes;
  const int column = (thread - segment * lanes) * W;
  const int quantity = column >= count ? 1 : 0;
  const float* part =
      partials + std::int64_t{quantity} * tiles.period + from + column - quantity * count;
  float sum[W] = {};
  if (segment < segments) {
#pragma unroll 8
    for (int i = segment; i < parts; i += segments) {
      const float* const some =
          part + std::int64_t{i >> tiles.fold} * 2 * tiles.period + (i & mask) * tiles.channels;
      if constexpr (W == 4) {
        const float4 four = __ldcg(reinterpret_cast<const float4*>(some));
        sum[0] += four.x;
        sum[1] += four.y;
        sum[2] += four.z;
        sum[3] += four.w;
      } else {
        sum[0] += __ldcg(some);
      }
    }
  }
  __syncthreads();
  if (segment < segments) {
#pragma unroll
    for (int i = 0; i < W; ++i) shared[segment * columns + column + i] = sum[i];
  }
  __syncthreads();
  if (thread >= count) return;
  double first = 0.0;
  double second = 0.0;
  for (int s = 0; s < segments; ++s) {
    first += static_cast<double>(shared[s * columns + thread]);
    second += static_cast<double>(shared[s * columns + count + thread]);
  }
  finish(from + thread, first, second);
}

/// The same of channels [begin, end). `shared` has 2 * V * sum_threads floats; where V is a pack,
/// `begin` and `partials` are on a pack's border.
template <int V, typename Finish>
__device__ __forceinline__ void sum_blocks(const RowTiles& tiles, int begin, int end,
                                           const float* partials, float* shared,
                                           const Finish& finish) {
  for (int from = begin; from < end; from += max_columns) {
    const int count = min(max_columns, end - from);
    // Fewer loads of more bytes: what a block waits for is one load behind the other.
    if constexpr (V % 4 == 0) {
      if (tiles.fold == 0) {
        sum_columns<4>(tiles, from, count, partials, shared, finish);
        continue;
      }
    }
    sum_columns<1>(tiles, from, count, partials, shared, finish);
  }
}

/// The channels whose sums come from this block and others together, and the number of those
/// blocks in a group: a tile's, or all, where rows taken together spread a channel over several
/// tiles.
struct SummedChannels {
  int begin;
  int end;
  unsigned counter;  ///< of that tile
  unsigned blocks;
};

template <int V>
__device__ __forceinline__ SummedChannels summed_channels(const RowTiles& tiles) {
  if (tiles.fold > 0) return {0, tiles.channels, 0, gridDim.x * gridDim.y};
  const int width = tiles.width * V;
  const int begin = static_cast<int>(blockIdx.x) * width;
  return {begin, min(begin + width, tiles.channels), blockIdx.x, gridDim.y};
}

}  // namespace channel_sums

/// Ends a kernel of sum_threads threads whose threads each hold two sums of each channel of their
/// pack, zero in those without one: `finish(channel, first, second)` is called once for each
/// channel and group with the sums over the group's rows. `shared` has 2 * V * sum_threads floats.
/// Returns whether this block made those calls for its group.
template <int V, typename Finish>
__device__ __forceinline__ bool finish_sums(const RowTiles& tiles, const TilePlace& place,
                                            const float (&first)[V], const float (&second)[V],
                                            float* shared, const ChannelSums& sums,
                                            const Finish& finish) {
  float* partials = sums.partials + std::int64_t{2} * blockIdx.z * tiles.chunks * tiles.period;
  channel_sums::store_block<V>(tiles, place, first, second, shared, partials);
  const channel_sums::SummedChannels channels = channel_sums::summed_channels<V>(tiles);
  unsigned* counter = sums.counters + blockIdx.z * tiles.tiles + channels.counter;
  if (!channel_sums::is_last(counter, channels.blocks)) return false;
  channel_sums::sum_blocks<V>(tiles, channels.begin, channels.end, partials, shared, finish);
  return true;
}

/// For a block in which finish_sums() returned true, where there are several groups: once all of
/// them are done, `finish(channel)` is called, once for each channel. What finish_sums()' calls
/// wrote is visible to it.
template <int V, typename Finish>
__device__ __forceinline__ void finish_groups(const RowTiles& tiles, const ChannelSums& sums,
                                              const Finish& finish) {
  const channel_sums::SummedChannels channels = channel_sums::summed_channels<V>(tiles);
  unsigned* counter = sums.counters + tiles.groups * tiles.tiles + channels.counter;
  if (!channel_sums::is_last(counter, gridDim.z)) return;
  for (int channel = channels.begin + static_cast<int>(threadIdx.x); channel < channels.end;
       channel += sum_threads) {
    finish(channel);
  }
}

}  // namespace tandem
