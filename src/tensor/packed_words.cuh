#pragma once

// Packs of elements in whole registers.

#include <type_traits>

#include "tensor/cuda_elements.cuh"

namespace tandem {

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
};

/// a + b, element by element.
template <typename T, int Bytes>
__device__ __forceinline__ Words<Bytes> sum_of(const Words<Bytes>& a, const Words<Bytes>& b) {
  Words<Bytes> sum;
#pragma unroll
  for (int i = 0; i < Words<Bytes>::count; ++i) {
    float values[Lanes<T>::count];
#pragma unroll
    for (int lane = 0; lane < Lanes<T>::count; ++lane) {
      values[lane] = Lanes<T>::get(a.word[i], lane) + Lanes<T>::get(b.word[i], lane);
    }
    sum.word[i] = Lanes<T>::join(values);
  }
  return sum;
}

}  // namespace tandem
