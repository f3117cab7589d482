#include <algorithm>

#include "device/cuda_check.h"
#include "parallel/colocated/colocated_sum.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int sum_threads = 512;
constexpr int combine_threads = 256;
/// Blocks that fill an H200 where each of them has 512 threads. The members share them: their
/// kernels run at the same time.
constexpr int blocks_of_all = 4 * 132;
/// Beyond this many members the kernel loops over them instead.
constexpr int most_unrolled = 8;

__device__ __forceinline__ float4 load_once(const void* arena, std::int64_t pack) {
  return __ldcs(static_cast<const float4*>(arena) + pack);
}

__device__ __forceinline__ void add(float4& sum, const float4& value) {
  sum.x += value.x;
  sum.y += value.y;
  sum.z += value.z;
  sum.w += value.w;
}

/// Members: their number, or 0 where only `members` tells it.
template <int Members>
__device__ __forceinline__ float4 sum_pack(const MemberMemory& arenas, int members,
                                           std::int64_t pack) {
  if constexpr (Members > 0) {
    float4 values[Members];  // all loads under way before the first sum
#pragma unroll
    for (int m = 0; m < Members; ++m) values[m] = load_once(arenas.of[m], pack);
#pragma unroll
    for (int m = 1; m < Members; ++m) add(values[0], values[m]);
    return values[0];
  } else {
    float4 sum = load_once(arenas.of[0], pack);
#pragma unroll 4
    for (int m = 1; m < members; ++m) add(sum, load_once(arenas.of[m], pack));
    return sum;
  }
}

__device__ __forceinline__ void sum_element(const MemberMemory& arenas, int members, std::int64_t i,
                                            float* result) {
  float sum = static_cast<const float*>(arenas.of[0])[i];
  for (int m = 1; m < members; ++m) sum += static_cast<const float*>(arenas.of[m])[i];
  result[i] = sum;
}

template <int Members>
__global__ void __launch_bounds__(sum_threads)
    sum_kernel(const __grid_constant__ MemberMemory arenas, int members, PackedRange range,
               float* result) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * sum_threads + threadIdx.x;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * sum_threads;
  if (thread < range.head.elements()) {
    sum_element(arenas, members, range.head.begin + thread, result);
  }
  if (thread < range.tail.elements()) {
    sum_element(arenas, members, range.tail.begin + thread, result);
  }
  for (std::int64_t pack = range.first + thread; pack < range.last; pack += threads) {
    reinterpret_cast<float4*>(result)[pack] = sum_pack<Members>(arenas, members, pack);
  }
}

int blocks_for(std::int64_t items, int threads, std::int64_t most) {
  const std::int64_t wanted = (items + threads - 1) / threads;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
}

template <int Members>
void launch_sum(cudaStream_t stream, const MemberMemory& arenas, int members,
                const PackedRange& range, float* result) {
  const int blocks =
      blocks_for(range.last - range.first, sum_threads, std::max(blocks_of_all / members, 16));
  sum_kernel<Members><<<blocks, sum_threads, 0, stream>>>(arenas, members, range, result);
  TANDEM_CUDA_CHECK_LAUNCH();
}

using SumLaunch = void (*)(cudaStream_t, const MemberMemory&, int, const PackedRange&, float*);

/// By the number of members; the first takes any.
constexpr SumLaunch sum_launches[most_unrolled + 1] = {launch_sum<0>, launch_sum<1>, launch_sum<2>,
                                                       launch_sum<3>, launch_sum<4>, launch_sum<5>,
                                                       launch_sum<6>, launch_sum<7>, launch_sum<8>};

/// What elements are combined as.
template <typename T>
struct Wide {
  using Type = T;
};
template <>
struct Wide<__half> {
  using Type = float;
};
template <>
struct Wide<__nv_bfloat16> {
  using Type = float;
};

template <typename T>
__device__ __forceinline__ typename Wide<T>::Type load(const void* from, std::int64_t i) {
  const T value = static_cast<const T*>(from)[i];
  if constexpr (std::is_same_v<typename Wide<T>::Type, T>) {
    return value;
  } else {
    return to_float(value);
  }
}

template <typename T>
__device__ __forceinline__ void store(void* to, std::int64_t i, typename Wide<T>::Type value) {
  if constexpr (std::is_same_v<typename Wide<T>::Type, T>) {
    static_cast<T*>(to)[i] = value;
  } else {
    static_cast<T*>(to)[i] = from_float<T>(value);
  }
}

template <typename T, ReduceOp Op>
__global__ void __launch_bounds__(combine_threads)
    combine_kernel(const __grid_constant__ MemberMemory inputs, int members, std::int64_t count,
                   void* output) {
  using W = typename Wide<T>::Type;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.x) * combine_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * combine_threads + threadIdx.x;
       i < count; i += threads) {
    W result = load<T>(inputs.of[0], i);
    for (int m = 1; m < members; ++m) {
      const W value = load<T>(inputs.of[m], i);
      if constexpr (Op == ReduceOp::sum) result = static_cast<W>(result + value);
      if constexpr (Op == ReduceOp::max) result = result < value ? value : result;
      if constexpr (Op == ReduceOp::min) result = value < result ? value : result;
    }
    store<T>(output, i, result);
  }
}

template <typename T, ReduceOp Op>
void launch_combine(cudaStream_t stream, const MemberMemory& inputs, int members,
                    std::int64_t count, void* output) {
  const int blocks = blocks_for(count, combine_threads, blocks_of_all);
  combine_kernel<T, Op><<<blocks, combine_threads, 0, stream>>>(inputs, members, count, output);
  TANDEM_CUDA_CHECK_LAUNCH();
}

template <typename T>
void combine_as(cudaStream_t stream, const MemberMemory& inputs, int members, ReduceOp op,
                std::int64_t count, void* output) {
  switch (op) {
    case ReduceOp::sum:
      return launch_combine<T, ReduceOp::sum>(stream, inputs, members, count, output);
    case ReduceOp::max:
      return launch_combine<T, ReduceOp::max>(stream, inputs, members, count, output);
    case ReduceOp::min:
      return launch_combine<T, ReduceOp::min>(stream, inputs, members, count, output);
  }
}

}  // namespace

void sum_share(CUstream_st* stream, const MemberMemory& arenas, int members,
               const ArenaRange& share, float* result) {
  if (share.elements() == 0) return;
  const SumLaunch launch = sum_launches[members <= most_unrolled ? members : 0];
  launch(stream, arenas, members, PackedRange(share), result);
}

CombinedType combined_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CombinedType::f32;
    case DType::f16:
      return CombinedType::f16;
    case DType::bf16:
      return CombinedType::bf16;
    case DType::u8:
      return CombinedType::u8;
    case DType::i32:
      return CombinedType::i32;
    case DType::i64:
      return CombinedType::i64;
  }
  throw Error("an element type that cannot be combined");
}

std::int64_t bytes_of(CombinedType type) {
  switch (type) {
    case CombinedType::f64:
    case CombinedType::i64:
      return 8;
    case CombinedType::f32:
    case CombinedType::i32:
      return 4;
    case CombinedType::f16:
    case CombinedType::bf16:
      return 2;
    case CombinedType::u8:
      return 1;
  }
  throw Error("an element type that cannot be combined");
}

void combine(CUstream_st* stream, const MemberMemory& inputs, int members, CombinedType type,
             ReduceOp op, std::int64_t count, void* output) {
  if (count == 0) return;
  switch (type) {
    case CombinedType::f32:
      return combine_as<float>(stream, inputs, members, op, count, output);
    case CombinedType::f64:
      return combine_as<double>(stream, inputs, members, op, count, output);
    case CombinedType::f16:
      return combine_as<__half>(stream, inputs, members, op, count, output);
    case CombinedType::bf16:
      return combine_as<__nv_bfloat16>(stream, inputs, members, op, count, output);
    case CombinedType::u8:
      return combine_as<std::uint8_t>(stream, inputs, members, op, count, output);
    case CombinedType::i32:
      return combine_as<std::int32_t>(stream, inputs, members, op, count, output);
    case CombinedType::i64:
      return combine_as<std::int64_t>(stream, inputs, members, op, count, output);
  }
}

}  // namespace tandem
