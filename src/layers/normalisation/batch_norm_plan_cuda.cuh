#pragma once

// What batch normalisation's kernels have in common: how many blocks each gets, the elements that
// they move at once, the derivative of what is fused.

#include <algorithm>
#include <type_traits>

#include "device/cuda_context.h"
#include "layers/activation_cuda.cuh"
#include "layers/normalisation/batch_norm_kernels_cuda.h"
#include "layers/normalisation/batch_norm_sums_cuda.cuh"

namespace tandem {

/// Calls `use(T(), std::integral_constant<int, V>())` with the element type and the elements that
/// move at once: 16 bytes of them where memory is aligned to that, in every group, else one.
template <typename Use>
void with_packs(const BatchNormShape& shape, DType dtype, bool aligned, Use&& use) {
  with_element_type(dtype, [&](auto element) {
    constexpr int full = full_pack<decltype(element)>;
    if (aligned && (shape.groups == 1 || shape.elements() % full == 0)) {
      use(element, std::integral_constant<int, full>());
    } else {
      use(element, std::integral_constant<int, 1>());
    }
  });
}

/// `gradient` times the derivative at `input`: recomputing it costs less than reading the result.
template <Activation A>
__device__ __forceinline__ float activation_gradient_at(float input, float gradient) {
  if constexpr (A == Activation::sigmoid) {
    return activation_gradient<A>(activate<A>(input), gradient);
  } else {
    // relu and relu6 are strictly between their bounds where their input is.
    return activation_gradient<A>(input, gradient);
  }
}

/// Whether a byte can say through which of V elements behind an activation A gradients pass, whole:
/// the derivative is one or zero, and a pack has as many elements as a byte has bits.
template <int V, Activation A>
constexpr bool has_passes = V == 8 && passes_or_stops(A);

/// That byte, of the activation's results.
template <Activation A, typename T>
__device__ __forceinline__ std::uint8_t passes_of(const WaitingPack<T, 8>& results) {
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (activation_gradient<A>(results.get(i), 1.0F) != 0.0F) bits |= 1U << i;
  }
  return static_cast<std::uint8_t>(bits);
}

/// As in_group(), of memory with a byte for eight elements; null stays null.
template <typename Byte>
__device__ __forceinline__ Byte* in_group_of_packs(const RowTiles& tiles, Byte* memory) {
  return memory == nullptr ? memory : memory + blockIdx.z * (tiles.apart / 8);
}

inline dim3 grid_of(const RowTiles& tiles) {
  return dim3(static_cast<unsigned>(tiles.tiles), static_cast<unsigned>(tiles.chunks),
              static_cast<unsigned>(tiles.groups));
}

inline ChannelSums channel_sums_of(const BatchNormWork& work) {
  return {reinterpret_cast<float*>(work.partials), work.counters};
}

/// One wave of blocks, two on an SM: each thread has many rows, and the last block few parts.
inline RowTiles statistics_tiles(const CudaContext& context, const BatchNormShape& shape,
                                 int pack) {
  return channel_sum_tiles(shape, pack, 2 * context.device().multiprocessors);
}

/// One block on an SM: with the derivative's coefficients a thread needs more registers.
inline RowTiles gradient_tiles(const CudaContext& context, const BatchNormShape& shape, int pack) {
  return channel_sum_tiles(shape, pack, context.device().multiprocessors);
}

/// Of kernels without sums.
constexpr int elementwise_threads = 256;

/// As many rows a thread as leave every SM two blocks, at most eight: coefficients are loaded once
/// for all of them.
inline RowTiles elementwise_tiles(const CudaContext& context, const BatchNormShape& shape,
                                  int pack) {
  RowTileLimits limits{.pack = pack,
                       .threads = elementwise_threads,
                       .max_width = 32,
                       .rows_per_thread = 8,
                       .max_blocks = 1 << 30};
  RowTiles tiles = make_row_tiles(shape, limits);
  while (limits.rows_per_thread > 1 && tiles.blocks() < 2 * context.device().multiprocessors) {
    limits.rows_per_thread /= 2;
    tiles = make_row_tiles(shape, limits);
  }
  return tiles;
}

}  // namespace tandem
