#include <algorithm>

#include "device/cuda_check.h"
#include "parallel/colocated/colocated_sum.h"
#include "parallel/peer_copy/direct_sum.h"

namespace tandem {
namespace {

constexpr int threads = 256;
/// Enough for one pass over the longest share, of two ranks and DeviceLinkOptions::most_direct as
/// it is by default, with four elements for each thread.
constexpr std::int64_t most_blocks = 128;
/// Loads under way before the first sum.
constexpr int most_unrolled = 4;

struct Arenas {
  float* of[most_members];
};

__device__ __forceinline__ float add(float a, float b) { return a + b; }
__device__ __forceinline__ float4 add(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// Of elements, or of packs of four.
template <typename T>
__device__ __forceinline__ void sum_at(const Arenas& arenas, int ranks, std::int64_t i) {
  T sum = reinterpret_cast<const T*>(arenas.of[0])[i];
#pragma unroll most_unrolled
  for (int r = 1; r < ranks; ++r) sum = add(sum, reinterpret_cast<const T*>(arenas.of[r])[i]);
  for (int r = 0; r < ranks; ++r) reinterpret_cast<T*>(arenas.of[r])[i] = sum;
}

__global__ void __launch_bounds__(threads)
    direct_sum_kernel(const __grid_constant__ Arenas arenas, int ranks, PackedRange range) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * threads;
  if (thread < range.head.elements()) sum_at<float>(arenas, ranks, range.head.begin + thread);
  if (thread < range.tail.elements()) sum_at<float>(arenas, ranks, range.tail.begin + thread);
  for (std::int64_t pack = range.first + thread; pack < range.last; pack += stride) {
    sum_at<float4>(arenas, ranks, pack);
  }
}

}  // namespace

void sum_directly(CUstream_st* stream, std::span<float* const> arenas, const ArenaRange& share) {
  if (share.elements() == 0) return;
  Arenas by_rank{};
  std::copy(arenas.begin(), arenas.end(), by_rank.of);
  const PackedRange range(share);
  const auto blocks = static_cast<unsigned int>(
      std::clamp<std::int64_t>((range.last - range.first + threads - 1) / threads, 1, most_blocks));
  direct_sum_kernel<<<blocks, threads, 0, stream>>>(by_rank, static_cast<int>(arenas.size()),
                                                    range);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
