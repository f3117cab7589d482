#pragma once

// What the strips' kernels share: pairs of channels, lines of pixels, weights in registers.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <nv/target>
#include <type_traits>

#include "layers/activation_cuda.cuh"
#include "layers/depthwise/depthwise_conv_cuda.h"
#include "layers/depthwise/depthwise_strips_cuda.h"
#include "tensor/cuda_elements.cuh"

namespace tandem::cuda_depthwise {

/// Two neighbouring channels as they lie in memory.
template <typename T>
struct PairOf {
  using Type = std::uint32_t;
};
template <>
struct PairOf<float> {
  using Type = float2;
};
template <typename T>
using Pair = typename PairOf<T>::Type;

template <typename T>
__device__ __forceinline__ float2 to_floats(Pair<T> pair);
template <>
__device__ __forceinline__ float2 to_floats<float>(float2 pair) {
  return pair;
}
template <>
__device__ __forceinline__ float2 to_floats<__half>(std::uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
template <>
__device__ __forceinline__ float2 to_floats<__nv_bfloat16>(std::uint32_t pair) {
  return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000U)};
}

template <typename T>
__device__ __forceinline__ Pair<T> to_pair(float2 value);
template <>
__device__ __forceinline__ float2 to_pair<float>(float2 value) {
  return value;
}
template <>
__device__ __forceinline__ std::uint32_t to_pair<__half>(float2 value) {
  const __half2 pair = __floats2half2_rn(value.x, value.y);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}
template <>
__device__ __forceinline__ std::uint32_t to_pair<__nv_bfloat16>(float2 value) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(value.x, value.y);
  return *reinterpret_cast<const std::uint32_t*>(&pair);
}

template <typename T>
__device__ __forceinline__ void store_pair(float2 value, T* to) {
  *reinterpret_cast<Pair<T>*>(to) = to_pair<T>(value);
}

__device__ __forceinline__ void multiply_add(float2& sum, float2 a, float2 b) {
  sum.x = fmaf(a.x, b.x, sum.x);
  sum.y = fmaf(a.y, b.y, sum.y);
}

/// The same value, of which the compiler knows nothing: it would keep the value's multiples, which
/// are cheap to make, in registers through a loop that has none to spare.
__device__ __forceinline__ int forget(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// from + count * step, in one instruction where `count` is known when compiling.
template <typename T>
__device__ __forceinline__ T* moved(T* from, int count, int step) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(from) +
                              std::int64_t{count * static_cast<int>(sizeof(T))} * step);
}

/// Pixels beside each other, `channels` elements apart; zero where the mask's bit is.
template <typename T, int Count>
__device__ __forceinline__ void load_line(Pair<T> (&line)[Count], const T* from, int channels,
                                          unsigned mask) {
  const int step = forget(channels);
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    line[i] =
        (mask >> i & 1U) != 0 ? *reinterpret_cast<const Pair<T>*>(moved(from, i, step)) : Pair<T>{};
  }
}

template <typename T, int Count>
__device__ __forceinline__ void widen(float2 (&to)[Count], const Pair<T> (&line)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) to[i] = to_floats<T>(line[i]);
}

/// What a pair of channels of one sample is normalised with.
struct PairNorm {
  float2 scale, shift;
};
template <Activation A>
__device__ __forceinline__ PairNorm pair_norm(const InputNorm& norm, int image, int channel) {
  if constexpr (A == Activation::none) {
    return {};
  } else {
    const int at = image / norm.samples * norm.apart + channel;
    return {*reinterpret_cast<const float2*>(norm.scale + at),
            *reinterpret_cast<const float2*>(norm.shift + at)};
  }
}

/// The pair rounded to T, negative numbers as zero and NaN as NaN.
template <typename T>
__device__ __forceinline__ std::uint32_t to_relu_pair(float2 value) {
  std::uint32_t pair = 0;
  if constexpr (std::is_same_v<T, __half>) {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80,
                      (asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;"
                           : "=r"(pair)
                           : "f"(value.y), "f"(value.x));),
                      (pair = to_pair<T>({activate<Activation::relu>(value.x),
                                          activate<Activation::relu>(value.y)});))
  } else {
    NV_IF_ELSE_TARGET(NV_PROVIDES_SM_80,
                      (asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;"
                           : "=r"(pair)
                           : "f"(value.y), "f"(value.x));),
                      (pair = to_pair<T>({activate<Activation::relu>(value.x),
                                          activate<Activation::relu>(value.y)});))
  }
  return pair;
}

template <typename T>
__device__ __forceinline__ std::uint32_t at_most_six(std::uint32_t pair) {
  using Two = std::conditional_t<std::is_same_v<T, __half>, __half2, __nv_bfloat162>;
  const std::uint32_t six = to_pair<T>({6.0F, 6.0F});
  const Two least =
      __hmin2_nan(*reinterpret_cast<const Two*>(&pair), *reinterpret_cast<const Two*>(&six));
  return *reinterpret_cast<const std::uint32_t*>(&least);
}

/// The activation of the pair, rounded to T. Rounding keeps the order, and zero and six are numbers
/// of every T, so two-byte pairs are bounded while and after they are rounded, both at once.
template <typename T, Activation A>
__device__ __forceinline__ Pair<T> to_activated_pair(float2 value) {
  if constexpr (sizeof(T) == 2 && A == Activation::relu) {
    return to_relu_pair<T>(value);
  } else if constexpr (sizeof(T) == 2 && A == Activation::relu6) {
    return at_most_six<T>(to_relu_pair<T>(value));
  } else {
    return to_pair<T>({activate<A>(value.x), activate<A>(value.y)});
  }
}

/// widen() of a line whose normalisation was left to be done here, unless A is none: the values are
/// those that would have been stored. Columns outside of the image, whose bit of the mask is not
/// set, are zero.
template <typename T, Activation A, int Count>
__device__ __forceinline__ void normalise(float2 (&to)[Count], const Pair<T> (&line)[Count],
                                          const PairNorm& norm, unsigned mask) {
  if constexpr (A == Activation::none) {
    widen<T>(to, line);
  } else {
    Pair<T> normal[Count];
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float2 value = to_floats<T>(line[i]);
      normal[i] = to_activated_pair<T, A>(
          {fmaf(value.x, norm.scale.x, norm.shift.x), fmaf(value.y, norm.scale.y, norm.shift.y)});
    }
    if (mask != (1U << Count) - 1) {
#pragma unroll
      for (int i = 0; i < Count; ++i) {
        if ((mask >> i & 1U) == 0) normal[i] = Pair<T>{};
      }
    }
    widen<T>(to, normal);
  }
}

template <int Count>
__device__ __forceinline__ void clear(float2 (&line)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) line[i] = {0.0F, 0.0F};
}

/// Bit i: whether column first + i is one of `columns`.
template <int Count>
__device__ __forceinline__ unsigned columns_mask(int first, int columns) {
  unsigned mask = 0;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (static_cast<unsigned>(first + i) < static_cast<unsigned>(columns)) mask |= 1U << i;
  }
  return mask;
}

/// The first channel of this thread's pair, which may lie beyond the last.
__device__ __forceinline__ int own_channel(const StripPlan& plan) {
  return 2 *
         (static_cast<int>(blockIdx.x) % plan.tiles * plan.pairs + static_cast<int>(threadIdx.x));
}
/// This thread's first item, and how far it is to the next.
__device__ __forceinline__ int first_item(const StripPlan& plan) {
  return static_cast<int>(blockIdx.x) / plan.tiles * plan.lanes + static_cast<int>(threadIdx.y);
}
__device__ __forceinline__ int item_step(const StripPlan& plan) { return plan.blocks * plan.lanes; }

/// A strip of an image: rows [first, last), `column` and the next ones.
struct StripItem {
  int image, first, last, column;
};
__device__ __forceinline__ StripItem strip_item(const StripPlan& plan, int index, int width,
                                                int rows) {
  const int strip = index % plan.strips;
  const int above = index / plan.strips;
  const int first = above % plan.chunks * plan.chunk_rows;
  return {above / plan.chunks, first, min(first + plan.chunk_rows, rows), strip * width};
}

/// The weights of the pair from `channel`, whose taps lie in a row, one channel's behind the
/// other's.
template <typename T, int Taps>
__device__ __forceinline__ void load_weights(const T* __restrict__ weight, int channel,
                                             bool flipped, float2 (&own)[Taps]) {
  Pair<T> both[Taps];
#pragma unroll
  for (int i = 0; i < Taps; ++i) {
    both[i] = *reinterpret_cast<const Pair<T>*>(weight + channel * Taps + 2 * i);
  }
  const auto tap = [&](int i) {
    const float2 two = to_floats<T>(both[i / 2]);
    return i % 2 == 0 ? two.x : two.y;
  };
#pragma unroll
  for (int i = 0; i < Taps; ++i) {
    const int other = Taps - 1 - i;
    own[i] = {flipped ? tap(other) : tap(i), flipped ? tap(Taps + other) : tap(Taps + i)};
  }
}

/// Blocks that a multiprocessor has registers for. Each has a warp on each of its quarters, which
/// hold 5 warps of up to 96 registers, 4 of 128 or 3 of 168: weights, sums and lines of pixels, and
/// what those are normalised with.
template <typename T, int Kernel, Activation A = Activation::none>
constexpr int resident_blocks = Kernel == 5                               ? 3
                                : sizeof(T) == 2 && A == Activation::none ? 5
                                                                          : 4;

/// Calls `use` with the window of `problem` as compile-time integers: kernel and stride.
template <int Value>
struct Constant {
  static constexpr int value = Value;
};
template <typename Use>
void with_kernel(int kernel, Use&& use) {
  if (kernel == 3) {
    use(Constant<3>{});
  } else {
    use(Constant<5>{});
  }
}

/// Calls `use` with one of the activations that may follow a deferred normalisation, as a
/// compile-time constant.
template <typename Use>
void with_deferred_activation(Activation activation, Use&& use) {
  with_activation(activation, [&](auto chosen) {
    if constexpr (can_be_deferred(decltype(chosen)::value)) {
      use(chosen);
    } else {
      throw Error(fmt::format("no depthwise kernel reads through {}", name_of(activation)));
    }
  });
}

}  // namespace tandem::cuda_depthwise
