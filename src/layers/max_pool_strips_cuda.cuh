#pragma once

// What the kernels over strips of windows have in common: packs of elements in whole registers, and
// the strips.

#include <algorithm>
#include <type_traits>

#include "layers/max_pool_cuda.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/fast_divisor.h"
#include "tensor/pack_width.cuh"

namespace tandem::cuda_max_pool {

/// A pack of `Bytes` as it lies in memory, in whole registers: the compiler would keep each small
/// element of a Pack that waits behind a condition in a register of its own.
template <int Bytes>
struct Words {
  static constexpr int count = (Bytes + 3) / 4;
  unsigned word[count];

  static __device__ __forceinline__ Words filled(unsigned with) {
    Words words;
#pragma unroll
    for (int i = 0; i < count; ++i) words.word[i] = with;
    return words;
  }
  static __device__ __forceinline__ Words load(const void* from) {
    if constexpr (Bytes == 16) {
      const uint4 in = *static_cast<const uint4*>(from);
      return {{in.x, in.y, in.z, in.w}};
    } else if constexpr (Bytes == 8) {
      const uint2 in = *static_cast<const uint2*>(from);
      return {{in.x, in.y}};
    } else {
      return {{*static_cast<const Whole*>(from)}};
    }
  }
  __device__ __forceinline__ void store(void* to) const {
    if constexpr (Bytes == 16) {
      *static_cast<uint4*>(to) = make_uint4(word[0], word[1], word[2], word[3]);
    } else if constexpr (Bytes == 8) {
      *static_cast<uint2*>(to) = make_uint2(word[0], word[1]);
    } else {
      *static_cast<Whole*>(to) = static_cast<Whole>(word[0]);
    }
  }

 private:
  using Whole = std::conditional_t<Bytes == 4, std::uint32_t,
                                   std::conditional_t<Bytes == 2, std::uint16_t, std::uint8_t>>;
};

/// How a word holds elements of T: one of 32 bits or two of 16, of which the second may be unused.
template <typename T>
struct Lanes {
  static constexpr int count = 4 / static_cast<int>(sizeof(T));

  /// The same bits in each lane.
  static __device__ __forceinline__ unsigned all(unsigned bits) {
    return sizeof(T) == 4 ? bits : bits * 0x10001U;
  }
  static __device__ __forceinline__ unsigned least() {
    if constexpr (sizeof(T) == 4) return 0xFF800000U;
    return std::is_same_v<T, __half> ? 0xFC00FC00U : 0xFF80FF80U;
  }
  static __device__ __forceinline__ float get(unsigned word, int lane) {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(word);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      return __uint_as_float(lane == 0 ? word << 16 : word & 0xFFFF0000U);
    } else {
      return __half2float(
          __ushort_as_half(static_cast<unsigned short>(lane == 0 ? word & 0xFFFFU : word >> 16)));
    }
  }
  static __device__ __forceinline__ unsigned join(const float (&values)[count]) {
    if constexpr (sizeof(T) == 4) {
      return __float_as_uint(values[0]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      const __nv_bfloat162 two = __floats2bfloat162_rn(values[0], values[1]);
      return reinterpret_cast<const unsigned&>(two);
    } else {
      const __half2 two = __floats2half2_rn(values[0], values[1]);
      return reinterpret_cast<const unsigned&>(two);
    }
  }
  /// All bits of the lanes where `value` is to be taken instead of `largest`, which comes before
  /// it: where it is larger, or the first NaN.
  static __device__ __forceinline__ unsigned beats(unsigned value, unsigned largest) {
    if constexpr (sizeof(T) == 4) {
      const float before = __uint_as_float(largest);
      return !(__uint_as_float(value) <= before) && before == before ? 0xFFFFFFFFU : 0U;
    } else {
      using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
      const Two before = reinterpret_cast<const Two&>(largest);
      return __hgtu2_mask(reinterpret_cast<const Two&>(value), before) &
             __heq2_mask(before, before);
    }
  }
};

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
    const unsigned mask = Lanes<T>::beats(value, values.word[i]);
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
