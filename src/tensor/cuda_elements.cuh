#pragma once

// Element types of CUDA kernels, and vectors of them that move in one access.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/error.h"
#include "tensor/dtype.h"

namespace tandem {

template <typename T>
__device__ __forceinline__ float to_float(T value);
template <>
__device__ __forceinline__ float to_float(float value) {
  return value;
}
template <>
__device__ __forceinline__ float to_float(__half value) {
  return __half2float(value);
}
template <>
__device__ __forceinline__ float to_float(__nv_bfloat16 value) {
  return __bfloat162float(value);
}

template <typename T>
__device__ __forceinline__ T from_float(float value);
template <>
__device__ __forceinline__ float from_float(float value) {
  return value;
}
template <>
__device__ __forceinline__ __half from_float(float value) {
  return __float2half_rn(value);
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float(float value) {
  return __float2bfloat16_rn(value);
}

/// `Count` neighbouring elements, loaded and stored at once. Aligned to its size, at most 16 bytes.
template <typename T, int Count>
struct alignas(sizeof(T) * Count) Pack {
  T values[Count];

  static __device__ __forceinline__ Pack load(const T* from) {
    return *reinterpret_cast<const Pack*>(from);
  }
  __device__ __forceinline__ void store(T* to) const { *reinterpret_cast<Pack*>(to) = *this; }
  __device__ __forceinline__ float get(int i) const { return to_float(values[i]); }
  __device__ __forceinline__ void set(int i, float value) { values[i] = from_float<T>(value); }
};

/// How many elements of T fill a 16-byte access.
template <typename T>
constexpr int full_pack = 16 / static_cast<int>(sizeof(T));

/// Calls `use(T())` with the CUDA type of `dtype`, one of f32, f16 and bf16.
template <typename Use>
void with_element_type(DType dtype, Use&& use) {
  switch (dtype) {
    case DType::f32:
      return use(float());
    case DType::f16:
      return use(__half());
    case DType::bf16:
      return use(__nv_bfloat16());
    default:
      throw Error(fmt::format("no CUDA kernel computes with {}", name_of(dtype)));
  }
}

/// Blocks of `threads` that cover `count` items.
inline unsigned blocks_for(std::int64_t count, int threads) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

}  // namespace tandem
