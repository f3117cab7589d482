#include <algorithm>

#include "device/cuda_check.h"
#include "parallel/direct/direct_sum.h"
#include "parallel/mapped/members.h"

namespace tandem {
namespace {

constexpr int threads = 512;
/// Of all ranks of a GPU, or one of each where these are more. On four H200s a step of ResNet-18
/// (32 px) was fastest with 12, or with 8 of 1,024 threads, which have a multiprocessor's registers
/// for themselves; fewer cannot keep the links busy, and more slow backward down.
constexpr int blocks_of_gpu = 12;
/// Float4 that a thread has under way. More do not stay in registers.
constexpr int most_loads = 8;

struct Arenas {
  float* of[most_members];
  float* only;  // who gets the sums, where it is not null
};

/// Calls `store` with each arena that gets the sums.
template <int Gpus, typename Store>
__device__ __forceinline__ void to_arenas(const Arenas& arenas, int gpus, Store&& store) {
  if (arenas.only != nullptr) return store(arenas.only);
  if constexpr (Gpus > 0) {
#pragma unroll
    for (int g = 0; g < Gpus; ++g) store(arenas.of[g]);
  } else {
    for (int g = 0; g < gpus; ++g) store(arenas.of[g]);
  }
}

__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float4 add(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// Of elements, or of packs of four.
template <typename T>
__device__ __forceinline__ void sum_at(const Arenas& arenas, int gpus, std::int64_t i) {
  T sum = reinterpret_cast<const T*>(arenas.of[0])[i];
#pragma unroll 4
  for (int g = 1; g < gpus; ++g) sum = add(sum, reinterpret_cast<const T*>(arenas.of[g])[i]);
  to_arenas<0>(arenas, gpus, [&](float* arena) { reinterpret_cast<T*>(arena)[i] = sum; });
}

/// Packs that a thread loads before it sums the first.
template <int Gpus>
constexpr int packs_at_once = Gpus > 0 ? most_loads / Gpus : 1;

/// Sums packs first, first + step, ... that are below `last`: all loads are under way before the
/// first sum.
template <int Gpus>
__device__ __forceinline__ void sum_packs(const Arenas& arenas, std::int64_t first, int step,
                                          std::int64_t last) {
  constexpr int packs = packs_at_once<Gpus>;
  float4 values[packs][Gpus];
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (first + p * step >= last) break;
#pragma unroll
    for (int g = 0; g < Gpus; ++g) {
      values[p][g] = reinterpret_cast<const float4*>(arenas.of[g])[first + p * step];
    }
  }
#pragma unroll
  for (int p = 0; p < packs; ++p) {
    if (first + p * step >= last) break;
    float4 sum = values[p][0];
#pragma unroll
    for (int g = 1; g < Gpus; ++g) sum = add(sum, values[p][g]);
    to_arenas<Gpus>(arenas, Gpus, [&](float* arena) {
      reinterpret_cast<float4*>(arena)[first + p * step] = sum;
    });
  }
}

/// Gpus: their number, or 0 where only `gpus` tells it.
template <int Gpus>
__global__ void __launch_bounds__(threads)
    direct_sum_kernel(const __grid_constant__ Arenas arenas, int gpus, PackedRange range) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (thread < range.head.elements()) sum_at<float>(arenas, gpus, range.head.begin + thread);
  if (thread < range.tail.elements()) sum_at<float>(arenas, gpus, range.tail.begin + thread);
  constexpr std::int64_t tile = std::int64_t{threads} * packs_at_once<Gpus>;
  for (std::int64_t first = range.first + blockIdx.x * tile + threadIdx.x; first < range.last;
       first += gridDim.x * tile) {
    if constexpr (Gpus > 0) {
      sum_packs<Gpus>(arenas, first, threads, range.last);
    } else {
      sum_at<float4>(arenas, gpus, first);
    }
  }
}

template <int Gpus>
void launch(cudaStream_t stream, const Arenas& arenas, int gpus, const PackedRange& range,
            int most_blocks) {
  constexpr std::int64_t tile = std::int64_t{threads} * packs_at_once<Gpus>;
  const auto blocks = static_cast<unsigned int>(
      std::clamp<std::int64_t>((range.last - range.first + tile - 1) / tile, 1, most_blocks));
  direct_sum_kernel<Gpus><<<blocks, threads, 0, stream>>>(arenas, gpus, range);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace

void sum_directly(CUstream_st* stream, std::span<float* const> arenas, const ArenaRange& share,
                  int ranks_of_gpu, int only) {
  if (share.elements() == 0) return;
  Arenas by_gpu{};
  std::copy(arenas.begin(), arenas.end(), by_gpu.of);
  if (only >= 0) by_gpu.only = by_gpu.of[only];
  const PackedRange range(share);
  const auto gpus = static_cast<int>(arenas.size());
  const int most_blocks = std::max(blocks_of_gpu / ranks_of_gpu, 1);
  switch (gpus) {
    case 2:
      return launch<2>(stream, by_gpu, gpus, range, most_blocks);
    case 4:
      return launch<4>(stream, by_gpu, gpus, range, most_blocks);
    case 8:
      return launch<8>(stream, by_gpu, gpus, range, most_blocks);
    default:
      return launch<0>(stream, by_gpu, gpus, range, most_blocks);
  }
}

}  // namespace tandem
