#pragma once

// What the kernels over strips of windows have in common: the search of the largest, and the
// strips.

#include <algorithm>
#include <type_traits>

#include "layers/pooling/max_pool_cuda.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"
#include "tensor/packed_words.cuh"

namespace tandem::cuda_max_pool {

/// The least value in each lane.
template <typename T>
__device__ __forceinline__ unsigned least_word() {
  if constexpr (sizeof(T) == 4) return 0xFF800000U;
  return std::is_same_v<T, __half> ? 0xFC00FC00U : 0xFF80FF80U;
}

/// All bits of the lanes where `value` is to be taken instead of `largest`, which comes before
/// it: where it is larger, or the first NaN.
template <typename T>
__device__ __forceinline__ unsigned beats(unsigned value, unsigned largest) {
  if constexpr (sizeof(T) == 4) {
    const float before = __uint_as_float(largest);
    return !(__uint_as_float(value) <= before) && before == before ? 0xFFFFFFFFU : 0U;
  } else {
    using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
    const Two before = reinterpret_cast<const Two&>(largest);
    return __hgtu2_mask(reinterpret_cast<const Two&>(value), before) & __heq2_mask(before, before);
  }
}

/// The largest elements so far, and which of their window they are: the first of equal ones, and
/// the first NaN before all numbers.
template <typename T, int P>
struct Largest {
  using Pack = Words<static_cast<int>(sizeof(T)) * P>;
  using Indices = Words<P>;
  Pack values;
  Pack taken;  ///< in lanes as wide as T

  __device__ __forceinline__ void begin(const Pack& first, unsigned index) {
    values = first;
    taken = Pack::filled(Lanes<T>::all(index));
  }
  /// An element that comes after all before.
  __device__ __forceinline__ void offer(const Pack& pack, unsigned index) {
#pragma unroll
    for (int i = 0; i < Pack::count; ++i) take(i, pack.word[i], Lanes<T>::all(index));
  }
  /// The largest of elements that come after all before; their indices count from `index`.
  __device__ __forceinline__ void offer(const Largest& other, unsigned index) {
#pragma unroll
    for (int i = 0; i < Pack::count; ++i) {
      take(i, other.values.word[i], other.taken.word[i] + Lanes<T>::all(index));
    }
  }
  __device__ __forceinline__ Indices indices() const {
    auto bytes = Indices::filled(0);
#pragma unroll
    for (int i = 0; i < Pack::count; ++i) {
      constexpr int lanes = Lanes<T>::count;
      // Bytes 0 and 2 beside each other where there are two lanes.
      const unsigned one = lanes == 2 ? __byte_perm(taken.word[i], 0, 0x4420) : taken.word[i];
      bytes.word[i * lanes / 4] |= one << (i * lanes % 4 * 8);
    }
    return bytes;
  }

 private:
  __device__ __forceinline__ void take(int i, unsigned value, unsigned index) {
    const unsigned mask = beats<T>(value, values.word[i]);
    values.word[i] = (value & mask) | (values.word[i] & ~mask);
    taken.word[i] = (index & mask) | (taken.word[i] & ~mask);
  }
};

/// The windows along one axis.
struct Axis {
  int input;
  int output;
  int padding;
};

struct Sizes {
  Axis rows;
  Axis columns;
  int channels;
};

inline Sizes sizes_of(const Problem& problem) {
  const auto narrow = [](std::int64_t extent) { return static_cast<int>(small_count(extent)); };
  small_count(problem.columns * problem.channels * problem.kernel);  // what kernels index with
  const int padding = narrow(problem.padding);
  return {.rows = {narrow(problem.rows), narrow(problem.out_rows), padding},
          .columns = {narrow(problem.columns), narrow(problem.out_columns), padding},
          .channels = narrow(problem.channels)};
}

/// Threads that each have a pack of channels, a column and a chunk of rows; neighbours in a block
/// have neighbouring packs and columns, so that they find what they share in the cache of their
/// multiprocessor.
struct Strips {
  std::uint32_t threads;
  int rows;
  int chunk_rows;
  FastDivisor packs;
  FastDivisor columns;
  FastDivisor chunks;

  static constexpr int block = 256;
  unsigned blocks() const { return blocks_for(threads, block); }
};

inline Strips plan_strips(std::int64_t batch, std::int64_t rows, std::int64_t columns,
                          std::int64_t packs, int multiprocessors) {
  // What a chunk shares with the one above it is read again: as few as still fill the device some
  // times over, so that its last blocks do not leave it empty for long, and none of one row.
  const std::int64_t wanted = std::int64_t{6144} * multiprocessors;
  const std::int64_t in_chunk = batch * columns * packs;
  const std::int64_t most =
      std::clamp<std::int64_t>((wanted + in_chunk - 1) / in_chunk, 1, (rows + 1) / 2);
  const std::int64_t chunk_rows = (rows + most - 1) / most;
  const std::int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  return {.threads = small_count(in_chunk * chunks),
          .rows = static_cast<int>(rows),
          .chunk_rows = static_cast<int>(chunk_rows),
          .packs = FastDivisor(packs),
          .columns = FastDivisor(columns),
          .chunks = FastDivisor(chunks)};
}

/// A thread's strip: rows [first, last).
struct Strip {
  std::int64_t image;
  int first;
  int last;
  int column;
  int pack;
  bool exists;
};

__device__ __forceinline__ Strip own_strip(const Strips& strips) {
  std::uint32_t rest = blockIdx.x * Strips::block + threadIdx.x;
  const bool exists = rest < strips.threads;
  const int pack = static_cast<int>(strips.packs.split(rest));
  const int column = static_cast<int>(strips.columns.split(rest));
  const int first = static_cast<int>(strips.chunks.split(rest)) * strips.chunk_rows;
  return {.image = rest,
          .first = first,
          .last = min(first + strips.chunk_rows, strips.rows),
          .column = column,
          .pack = pack,
          .exists = exists};
}

__device__ __forceinline__ bool within(int position, int extent) {
  return static_cast<unsigned>(position) < static_cast<unsigned>(extent);
}

}  // namespace tandem::cuda_max_pool
