#pragma once

// Two sums per channel over all rows of ResidentTiles: each warp's threads by shuffles, each
// block's warps and a tile's blocks one after the other, so in the same order in every run.

#include <bit>
#include <nv/target>

#include "layers/normalisation/resident_tiles_cuda.cuh"

namespace tandem {

/// The channel whose sums a lane of the first warp gets.
struct SummedChannel {
  int at;      ///< within the tile
  int number;  ///< within the tensor
  /// Whether this thread is the one of its block that finishes the channel.
  bool owned;
};

template <int V>
__device__ __forceinline__ SummedChannel summed_channel(const ResidentTiles& tiles) {
  // sum_over_warp() has left value i of 2V in the lanes [i * apart, (i + 1) * apart), in each
  // `width` of those the columns.
  constexpr int apart = 16 / V;
  const int thread = static_cast<int>(threadIdx.x);
  const int column = thread & (tiles.width - 1);
  const int at = column * V + thread / apart % V;
  const int pack = static_cast<int>(blockIdx.x) * tiles.width + column;
  return {at, pack * V + thread / apart % V,
          thread < 16 && thread % apart < tiles.width && pack < tiles.packs};
}

namespace resident_sums {

constexpr int most_warps = resident_threads / 32;
constexpr unsigned all_lanes = 0xffffffffU;

/// The sums over the warp's rows, each lane one: at each step a lane keeps half of its values and
/// gives the other half away, until one is left.
template <int V>
__device__ __forceinline__ float sum_over_warp(int width, const float (&first)[V],
                                               const float (&second)[V]) {
  // No step adds lanes of different columns: a tile has at most 16 channels.
  static_assert(resident_columns <= 16);
  constexpr int steps = std::countr_zero(2U * V);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float values[2 * V];
#pragma unroll
  for (int i = 0; i < V; ++i) {
    values[i] = first[i];
    values[V + i] = second[i];
  }
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int half = V >> step;
    const int offset = 16 >> step;
    const bool upper = (lane & offset) != 0;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      if (i >= half) continue;
      const float given = upper ? values[i] : values[half + i];
      const float kept = upper ? values[half + i] : values[i];
      values[i] = kept + __shfl_xor_sync(all_lanes, given, offset);
    }
  }
  float sum = values[0];
  for (int offset = 16 >> steps; offset >= width; offset /= 2) {
    sum += __shfl_xor_sync(all_lanes, sum, offset);
  }
  return sum;
}

/// The two halves of a barrier of all threads of a cluster. Earlier architectures have tiles of one
/// block.
__device__ __forceinline__ void arrive_at_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");))
}
__device__ __forceinline__ void wait_for_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.wait.acquire;" ::: "memory");))
}
/// What this thread wrote before it arrives is visible behind the barrier. It waits for its stores
/// to memory, too: few threads should need it.
__device__ __forceinline__ void fence_for_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("fence.acq_rel.cluster;" ::: "memory");))
}

/// What `shared`, this block's, is in a block of its cluster.
__device__ __forceinline__ float load_of_block(const float* shared, int block) {
  float value = *shared;
  NV_IF_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("{.reg .b32 there;"
                    "mapa.shared::cluster.u32 there, %1, %2;"
                    "ld.shared::cluster.f32 %0, [there];}"
                    : "=f"(value)
                    : "r"(static_cast<unsigned>(__cvta_generic_to_shared(shared))), "r"(block)
                    : "memory");))
  return value;
}

/// The sum of `shared` over the blocks of the cluster.
__device__ __forceinline__ double sum_over_cluster(const float* shared, int blocks) {
  float parts[most_resident_blocks];
  // All loads at once.
#pragma unroll
  for (int b = 0; b < most_resident_blocks; ++b) {
    parts[b] = b < blocks ? load_of_block(shared, b) : 0.0F;
  }
  double sum = 0.0;
#pragma unroll
  for (int b = 0; b < most_resident_blocks; ++b) sum += static_cast<double>(parts[b]);
  return sum;
}

}  // namespace resident_sums

struct ChannelTotals {
  double first;
  double second;
};

/// The sums over all rows of what the threads hold, zero in those without elements: in the first
/// warp of each block, of its lanes' summed_channel(). All threads call it, then sums_are_used()
/// and, before they end, leave_cluster().
template <int V>
__device__ __forceinline__ ChannelTotals sum_over_rows(const ResidentTiles& tiles,
                                                       const float (&first)[V],
                                                       const float (&second)[V]) {
  using namespace resident_sums;
  __shared__ float of_warps[most_warps][32];
  __shared__ float of_block[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool first_warp = threadIdx.x < 32;
  of_warps[threadIdx.x / 32][lane] = sum_over_warp<V>(tiles.width, first, second);
  __syncthreads();
  float of_rows = 0.0F;
  if (first_warp) {
#pragma unroll
    for (int w = 0; w < most_warps; ++w) {
      if (w < tiles.threads / 32) of_rows += of_warps[w][lane];
    }
  }
  auto total = static_cast<double>(of_rows);
  if (tiles.blocks > 1) {
    if (first_warp) {
      of_block[lane] = of_rows;
      fence_for_cluster();
    }
    arrive_at_cluster();
    wait_for_cluster();
    if (first_warp) total = sum_over_cluster(of_block + lane, tiles.blocks);
  }
  // The second sums are in the upper lanes.
  const double other = __shfl_xor_sync(all_lanes, total, 16);
  return lane < 16 ? ChannelTotals{total, other} : ChannelTotals{other, total};
}

/// Called once all threads of the block are behind a barrier behind sum_over_rows().
__device__ __forceinline__ void sums_are_used(const ResidentTiles& tiles) {
  if (tiles.blocks > 1) resident_sums::arrive_at_cluster();
}

/// Waits until no block reads this one's shared memory any more.
__device__ __forceinline__ void leave_cluster(const ResidentTiles& tiles) {
  if (tiles.blocks > 1) resident_sums::wait_for_cluster();
}

}  // namespace tandem
