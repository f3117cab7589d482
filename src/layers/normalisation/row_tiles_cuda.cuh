#pragma once

// What kernels over RowTiles have in common.

#include "layers/normalisation/row_tiles_cuda.h"
#include "layers/waiting_pack_cuda.cuh"

namespace tandem {

/// Where a thread stands in a block's tile. Those that are not `inside` have no elements.
struct TilePlace {
  int tile;   ///< as blockIdx.x of RowTiles
  int chunk;  ///< as blockIdx.y
  int lane;
  int pack;  ///< within the row
  bool inside;
};

__device__ __forceinline__ TilePlace tile_place(const RowTiles& tiles, int tile, int chunk) {
  const int lane = static_cast<int>(threadIdx.x) / tiles.width;
  const int pack = tile * tiles.width + static_cast<int>(threadIdx.x) - lane * tiles.width;
  return {tile, chunk, lane, pack, lane < tiles.lanes && pack < tiles.packs};
}

/// In the tile of this block.
__device__ __forceinline__ TilePlace tile_place(const RowTiles& tiles) {
  return tile_place(tiles, static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y));
}

/// `memory`, of the first group, in this block's group. It has `times` as many channels.
template <typename T>
__device__ __forceinline__ T* in_group(const RowTiles& tiles, T* memory, int times = 1) {
  return memory + static_cast<std::int64_t>(blockIdx.z) * times * tiles.apart;
}

/// Calls `use(i, channel)` for each element i of a pack.
template <int V, typename Use>
__device__ __forceinline__ void for_channels(const RowTiles& tiles, int pack, const Use& use) {
  int channel = pack * V % tiles.channels;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    use(i, channel);
    channel = channel + 1 == tiles.channels ? 0 : channel + 1;
  }
}

/// The values of a pack's channels from a table of one float a channel, 16-byte aligned.
template <int V>
__device__ __forceinline__ void load_channels(const RowTiles& tiles, int pack, const float* table,
                                              float (&values)[V]) {
  if constexpr (V % 4 == 0) {
    if (tiles.fold == 0) {
#pragma unroll
      for (int i = 0; i < V; i += 4) {
        const auto four = Pack<float, 4>::load(table + pack * V + i);
#pragma unroll
        for (int j = 0; j < 4; ++j) values[i + j] = four.values[j];
      }
      return;
    }
  }
  for_channels<V>(tiles, pack, [&](int i, int channel) { values[i] = table[channel]; });
}

/// Calls `load(slot, offset)` for U rows of this thread, then `use(slot, offset)`, until its rows
/// are done: so U loads are in flight. `offset` is that of the row's first element. From the last
/// row to the first where `Descending`: then a kernel begins with what the one before it, in the
/// other direction, left in the cache.
template <int U, bool Descending, typename Load, typename Use>
__device__ __forceinline__ void for_rows(const RowTiles& tiles, int lane, const Load& load,
                                         const Use& use) {
  const int step = static_cast<int>(gridDim.y) * tiles.lanes;
  const auto offset = [&](int row) {
    return std::int64_t{Descending ? tiles.rows - 1 - row : row} * tiles.period;
  };
  for (int row = static_cast<int>(blockIdx.y) * tiles.lanes + lane; row < tiles.rows;
       row += U * step) {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (row + u * step < tiles.rows) load(u, offset(row + u * step));
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (row + u * step < tiles.rows) use(u, offset(row + u * step));
    }
  }
}

/// Calls `use(i, index)` for those elements of this thread's pack that lie behind the last full
/// row; `index` counts from the tensor's first element.
template <int V, typename Use>
__device__ __forceinline__ void for_tail(const RowTiles& tiles, const TilePlace& place,
                                         const Use& use) {
  if (tiles.tail == 0 || blockIdx.y != 0 || place.lane != 0) return;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    const int at = place.pack * V + i;
    if (at < tiles.tail) use(i, std::int64_t{tiles.rows} * tiles.period + at);
  }
}

/// Whether full packs can be moved to and from all of `memory`; null ones count as yes.
template <typename... Memory>
bool packs_aligned(const Memory*... memory) {
  return ((reinterpret_cast<std::uintptr_t>(memory) % 16 == 0) && ...);
}

}  // namespace tandem
