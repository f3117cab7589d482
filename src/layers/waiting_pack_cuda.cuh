#pragma once

#include <type_traits>

#include "tensor/cuda_elements.cuh"

namespace tandem {

/// A Pack as it lies in memory, in whole registers: one that waits for its use. The compiler keeps
/// each 16-bit element of a Pack that lives across a branch in a register of its own.
template <typename T, int V>
struct alignas(V * sizeof(T)) WaitingPack {
  static constexpr int count = V * static_cast<int>(sizeof(T)) / 4;
  unsigned words[count];

  static __device__ __forceinline__ WaitingPack load(const T* from) {
    return *reinterpret_cast<const WaitingPack*>(from);
  }
  /// Of what is not read again soon: it leaves the cache before other lines do.
  static __device__ __forceinline__ WaitingPack load_once(const T* from) {
    static_assert(count == 4);
    const uint4 words = __ldcs(reinterpret_cast<const uint4*>(from));
    return {{words.x, words.y, words.z, words.w}};
  }
  __device__ __forceinline__ void store(T* to) const {
    *reinterpret_cast<WaitingPack*>(to) = *this;
  }

  __device__ __forceinline__ float get(int i) const {
    if constexpr (sizeof(T) == 4) {
      return __uint_as_float(words[i]);
    } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      const unsigned word = words[i / 2];
      return __uint_as_float(i % 2 == 0 ? word << 16 : word & 0xffff0000U);
    } else {
      const unsigned word = words[i / 2];
      const auto half = static_cast<unsigned short>(i % 2 == 0 ? word & 0xffffU : word >> 16);
      return __half2float(__ushort_as_half(half));
    }
  }

  /// The values, rounded to T.
  static __device__ __forceinline__ WaitingPack of(const float (&values)[V]) {
    WaitingPack made;
#pragma unroll
    for (int w = 0; w < count; ++w) {
      // Conversions of two values are one instruction.
      if constexpr (sizeof(T) == 4) {
        made.words[w] = __float_as_uint(values[w]);
      } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
        const __nv_bfloat162 two = __floats2bfloat162_rn(values[2 * w], values[2 * w + 1]);
        made.words[w] = reinterpret_cast<const unsigned&>(two);
      } else {
        const __half2 two = __floats2half2_rn(values[2 * w], values[2 * w + 1]);
        made.words[w] = reinterpret_cast<const unsigned&>(two);
      }
    }
    return made;
  }
};

template <typename T>
struct WaitingPack<T, 1> {
  T value;

  static __device__ __forceinline__ WaitingPack load(const T* from) { return {*from}; }
  __device__ __forceinline__ void store(T* to) const { *to = value; }
  __device__ __forceinline__ float get(int /*i*/) const { return to_float(value); }
  static __device__ __forceinline__ WaitingPack of(const float (&values)[1]) {
    return {from_float<T>(values[0])};
  }
};

/// V floats, aligned as a WaitingPack of as many.
template <int V>
__device__ __forceinline__ void load_floats(const float* from, float (&values)[V]) {
  constexpr int at_once = V < 4 ? V : 4;
#pragma unroll
  for (int i = 0; i < V; i += at_once) {
    const auto some = Pack<float, at_once>::load(from + i);
#pragma unroll
    for (int j = 0; j < at_once; ++j) values[i + j] = some.values[j];
  }
}

}  // namespace tandem
