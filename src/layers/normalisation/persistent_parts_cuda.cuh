#pragma once

// What kernels over PersistentTiles have in common. None of their blocks waits for one that has not
// started, so that nothing has to promise that all of them run at once, whatever else is on the
// device: a block takes part after part of the tensor until none is left, and then waits only for
// parts that others have taken. Where all run at once each has one; a block that comes late has
// none. Sums are stored by part, so that who took it makes no difference to them.

#include <cuda/atomic>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_sums_cuda.cuh"
#include "layers/normalisation/persistent_tiles_cuda.h"

namespace tandem {
namespace persistent {

/// Counters: see PersistentTiles.
constexpr int taken = 0;
constexpr int left = 1;
constexpr int summed = 2;

using Counter = cuda::atomic_ref<unsigned, cuda::thread_scope_device>;

__device__ __forceinline__ int take_part(unsigned* counters) {
  return static_cast<int>(atomicAdd(counters + taken, 1U));
}

/// Ends where all parts of a tile are summed; what their blocks stored before is then visible.
__device__ __forceinline__ void wait_for_summed(unsigned* counters, const RowTiles& tiles,
                                                int tile) {
  Counter counter(counters[summed + tile]);
  while (counter.load(cuda::memory_order_acquire) < static_cast<unsigned>(tiles.chunks)) {
  }
  __threadfence();
}

/// What thread 0 makes of it, in all threads of the block; a barrier.
template <typename Make>
__device__ __forceinline__ int of_first_thread(const Make& make) {
  __shared__ int made;
  __syncthreads();
  if (threadIdx.x == 0) made = make();
  __syncthreads();
  return made;
}

/// Says that a part of this tile is summed and takes the next part. Where none is left it waits for
/// the tile at once: the two answers then come together.
__device__ __forceinline__ int tell_summed_and_take(unsigned* counters, const RowTiles& tiles,
                                                    int tile) {
  return of_first_thread([&] {
    __threadfence();
    Counter(counters[summed + tile]).fetch_add(1, cuda::memory_order_release);
    const int next = take_part(counters);
    if (next >= tiles.tiles * tiles.chunks) wait_for_summed(counters, tiles, tile);
    return next;
  });
}

/// The last block that gets here leaves the counters as they were.
__device__ __forceinline__ void leave(unsigned* counters, int tiles) {
  if (threadIdx.x != 0) return;
  if (atomicAdd(counters + left, 1U) != gridDim.x - 1) return;
  for (int i = 0; i < summed + tiles; ++i) counters[i] = 0;
}

}  // namespace persistent

/// Calls `sum(place)`, which stores the sums of a part, for each part that this block takes, and
/// once all parts of a tile are summed `use(place, kept)` for those again. `kept`: whether it is
/// the one that sum() saw last. `owned`, shared, has room for a number of each part.
template <typename Sum, typename Use>
__device__ __forceinline__ void for_parts(const RowTiles& tiles, unsigned* counters, int* owned,
                                          const Sum& sum, const Use& use) {
  using namespace persistent;
  const int parts = tiles.tiles * tiles.chunks;
  const auto place_of = [&](int part) {
    const int chunk = part / tiles.tiles;
    return tile_place(tiles, part - chunk * tiles.tiles, chunk);
  };
  int count = 0;
  int part = of_first_thread([&] { return take_part(counters); });
  while (part < parts) {
    const TilePlace place = place_of(part);
    sum(place);
    if (threadIdx.x == 0) owned[count] = part;
    ++count;
    part = tell_summed_and_take(counters, tiles, place.tile);
  }
  for (int i = count - 1; i >= 0; --i) {
    const TilePlace place = place_of(owned[i]);
    if (i < count - 1) {
      of_first_thread([&] {
        wait_for_summed(counters, tiles, place.tile);
        return 0;
      });
    }
    use(place, i == count - 1);
    __syncthreads();
  }
  leave(counters, tiles.tiles);
}

/// The rows of a thread in a part, from the tensor's end on: a kernel begins with what the one
/// before it, which went the other way, left in the cache.
class PartRows {
 public:
  __device__ __forceinline__ PartRows(const RowTiles& tiles, const TilePlace& place)
      : last_(tiles.rows - 1 - (place.chunk * tiles.lanes + place.lane)),
        step_(tiles.chunks * tiles.lanes),
        period_(tiles.period),
        count_(last_ < 0 ? 0 : last_ / step_ + 1) {}

  __device__ __forceinline__ int count() const { return count_; }

  /// Calls `load(slot, k, offset)` for U rows, then `use(slot, k, offset)`, until rows [begin, end)
  /// are done. `offset` is that of the row's first element.
  template <int U, typename Load, typename Use>
  __device__ __forceinline__ void forward(int begin, int end, const Load& load,
                                          const Use& use) const {
    for (int k = begin; k < end; k += U) some<U>(k, 1, end - k, load, use);
  }
  /// The same from the last one to the first.
  template <int U, typename Load, typename Use>
  __device__ __forceinline__ void backward(int begin, int end, const Load& load,
                                           const Use& use) const {
    for (int k = end - 1; k >= begin; k -= U) some<U>(k, -1, k - begin + 1, load, use);
  }

 private:
  template <int U, typename Load, typename Use>
  __device__ __forceinline__ void some(int k, int by, int left, const Load& load,
                                       const Use& use) const {
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (u < left) load(u, k + u * by, offset(k + u * by));
    }
#pragma unroll
    for (int u = 0; u < U; ++u) {
      if (u < left) use(u, k + u * by, offset(k + u * by));
    }
  }
  __device__ __forceinline__ std::int64_t offset(int k) const {
    return std::int64_t{last_ - k * step_} * period_;
  }

  int last_;
  int step_;
  int period_;
  int count_;
};

/// A block's dynamic shared memory.
template <typename T, int V>
struct PersistentMemory {
  WaitingPack<T, V>* slots;  ///< this thread's slot k is sum_threads * k behind
  float* sums;               ///< 2 * V * sum_threads
  int* owned;

  static __device__ __forceinline__ PersistentMemory of(const PersistentTiles& tiles) {
    extern __shared__ __align__(16) std::byte memory[];
    auto* const slots = reinterpret_cast<WaitingPack<T, V>*>(memory);
    auto* const sums = reinterpret_cast<float*>(slots + tiles.slots * sum_threads);
    return {slots + threadIdx.x, sums, reinterpret_cast<int*>(sums + 2 * V * sum_threads)};
  }
};

template <typename... Parameters, typename... Arguments>
void launch_persistent(CudaContext& context, const PersistentTiles& tiles,
                       void (*kernel)(Parameters...), const Arguments&... arguments) {
  TANDEM_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(tiles.shared_bytes)));
  kernel<<<static_cast<unsigned>(tiles.parts()), sum_threads, tiles.shared_bytes,
           context.stream()>>>(arguments...);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
