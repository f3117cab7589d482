#pragma once

// What kernels over ResidentTiles have in common. The blocks of a tile are a thread block cluster,
// whose members read each other's shared memory.

#include <type_traits>
#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/normalisation/resident_tiles.h"
#include "layers/waiting_pack_cuda.cuh"

namespace tandem {

/// Packs of each operand that a thread keeps.
template <typename T, int V>
constexpr int resident_packs = resident_bytes / (V * static_cast<int>(sizeof(T)));

/// Most channels of a tile.
constexpr int resident_columns = resident_row_bytes / 2;

/// Where a thread stands: it works on rows `row`, `row + step`, … of the tensor.
struct ResidentPlace {
  int column;  ///< its pack within the tile
  int pack;    ///< within the row
  int row;
  int step;
  bool inside;  ///< whether there is such a pack
};

__device__ __forceinline__ ResidentPlace resident_place(const ResidentTiles& tiles) {
  const int lane = static_cast<int>(threadIdx.x) >> (__ffs(tiles.width) - 1);
  const int column = static_cast<int>(threadIdx.x) & (tiles.width - 1);
  const int pack = static_cast<int>(blockIdx.x) * tiles.width + column;
  return {column, pack, static_cast<int>(blockIdx.y) * tiles.lanes + lane,
          tiles.blocks * tiles.lanes, pack < tiles.packs};
}

/// `memory`, of the first group, in this block's group. It has `times` as many channels.
template <typename T>
__device__ __forceinline__ T* in_group(const ResidentTiles& tiles, T* memory, int times = 1) {
  return memory + static_cast<int>(blockIdx.z) * times * tiles.rows * tiles.channels;
}

/// Calls `use(slot, offset)` for each of the thread's packs; `offset` counts from the group's first
/// element.
template <int Kept, int V, typename Use>
__device__ __forceinline__ void for_kept(const ResidentTiles& tiles, const ResidentPlace& place,
                                         const Use& use) {
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int row = place.row + k * place.step;
    if (place.inside && row < tiles.rows) use(k, row * tiles.channels + place.pack * V);
  }
}

/// Calls `use(T(), std::integral_constant<int, V>())` with the element type and the pack of
/// ResidentTiles.
template <typename Use>
void with_resident_packs(DType dtype, int pack, Use&& use) {
  with_element_type(dtype, [&](auto element) {
    constexpr int full = full_pack<decltype(element)>;
    if (pack == full) {
      use(element, std::integral_constant<int, full>());
    } else {
      use(element, std::integral_constant<int, 2>());
    }
  });
}

/// The launch of a kernel whose blocks in y are a cluster.
class ClusterLaunch {
 public:
  ClusterLaunch(const CudaContext& context, int tiles, int blocks, int groups, int threads) {
    attribute_.id = cudaLaunchAttributeClusterDimension;
    attribute_.val.clusterDim.x = 1;
    attribute_.val.clusterDim.y = static_cast<unsigned>(blocks);
    attribute_.val.clusterDim.z = 1;
    config_.gridDim = dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(blocks),
                           static_cast<unsigned>(groups));
    config_.blockDim = dim3(static_cast<unsigned>(threads));
    config_.stream = context.stream();
    config_.attrs = &attribute_;
    // Devices without clusters launch single blocks.
    config_.numAttrs = blocks > 1 ? 1 : 0;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
  ClusterLaunch& operator=(const ClusterLaunch&) = delete;

  const cudaLaunchConfig_t* config() const { return &config_; }

 private:
  cudaLaunchAttribute attribute_{};
  cudaLaunchConfig_t config_{};
};

template <typename... Parameters, typename... Arguments>
void launch_resident(CudaContext& context, const ResidentTiles& tiles,
                     void (*kernel)(Parameters...), const Arguments&... arguments) {
  const ClusterLaunch launch(context, tiles.tiles, tiles.blocks, tiles.groups, tiles.threads);
  TANDEM_CUDA_CHECK(cudaLaunchKernelEx(launch.config(), kernel, arguments...));
}

/// How many clusters, and small blocks, of a kernel this device runs at once.
template <typename... Parameters>
ResidentClusters clusters_of(const CudaContext& context, void (*kernel)(Parameters...)) {
  const int multiprocessors = context.device().multiprocessors;
  int small_blocks = 0;  // of one multiprocessor
  TANDEM_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&small_blocks, kernel,
                                                                  small_resident_threads, 0));
  ResidentClusters clusters{.of_blocks = {multiprocessors},
                            .small_blocks = small_blocks * multiprocessors};
  cudaFuncAttributes attributes{};
  TANDEM_CUDA_CHECK(cudaFuncGetAttributes(&attributes, kernel));
  // Compiled for an earlier architecture, it has no instructions for clusters.
  if (context.device().capability < 90 || attributes.ptxVersion < 90) return clusters;
  for (std::size_t i = 1; i < clusters.of_blocks.size(); ++i) {
    const ClusterLaunch launch(context, 1, 1 << i, 1, resident_threads);
    TANDEM_CUDA_CHECK(
        cudaOccupancyMaxActiveClusters(&clusters.of_blocks[i], kernel, launch.config()));
  }
  return clusters;
}

}  // namespace tandem
