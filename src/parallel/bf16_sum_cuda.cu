#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "parallel/bf16_sum.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
constexpr int width = Bf16SumLayout::pack;
using Bf16Pack = Pack<__nv_bfloat16, width>;
using FloatPack = Pack<float, 4>;

/// A thread per pack of 8; buckets begin where slices do, which need not be at a multiple of 16
/// bytes.
template <bool Aligned>
__global__ void __launch_bounds__(threads)
    pack_kernel(std::int64_t elements, std::int64_t packs, const float* __restrict__ values,
                __nv_bfloat16* __restrict__ packed) {
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (pack >= packs) return;
  const std::int64_t first = pack * width;
  Bf16Pack out;
  if (Aligned && first + width <= elements) {
    const FloatPack low = FloatPack::load(values + first);
    const FloatPack high = FloatPack::load(values + first + 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out.set(i, low.values[i]);
      out.set(i + 4, high.values[i]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      out.set(i, first + i < elements ? values[first + i] : 0.0F);
    }
  }
  out.store(packed + first);
}

__global__ void __launch_bounds__(threads)
    sum_kernel(std::int64_t shard, int ranks, int rank, const __nv_bfloat16* __restrict__ received,
               __nv_bfloat16* own) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
  if (first >= shard) return;
  float sums[width];
#pragma unroll 4
  for (int from = 0; from < ranks; ++from) {
    const Bf16Pack part = Bf16Pack::load((from == rank ? own : received + from * shard) + first);
#pragma unroll
    for (int i = 0; i < width; ++i) sums[i] = from == 0 ? part.get(i) : sums[i] + part.get(i);
  }
  Bf16Pack out;
#pragma unroll
  for (int i = 0; i < width; ++i) out.set(i, sums[i]);
  out.store(own + first);
}

template <bool Aligned>
__global__ void __launch_bounds__(threads)
    unpack_kernel(std::int64_t elements, const __nv_bfloat16* __restrict__ packed,
                  float* __restrict__ values) {
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
  if (first >= elements) return;
  const Bf16Pack in = Bf16Pack::load(packed + first);
  if (Aligned && first + width <= elements) {
    FloatPack low;
    FloatPack high;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      low.values[i] = in.get(i);
      high.values[i] = in.get(i + 4);
    }
    low.store(values + first);
    high.store(values + first + 4);
  } else {
#pragma unroll
    for (int i = 0; i < width; ++i) {
      if (first + i < elements) values[first + i] = in.get(i);
    }
  }
}

bool aligned(const float* values) { return reinterpret_cast<std::uintptr_t>(values) % 16 == 0; }

const __nv_bfloat16* as_bf16(const std::uint16_t* bits) {
  return reinterpret_cast<const __nv_bfloat16*>(bits);
}
__nv_bfloat16* as_bf16(std::uint16_t* bits) { return reinterpret_cast<__nv_bfloat16*>(bits); }

unsigned blocks_of(std::int64_t elements) { return blocks_for(elements, threads * width); }

}  // namespace

void pack_bf16(CUstream_st* stream, const Bf16SumLayout& layout, const float* values,
               std::uint16_t* packed) {
  if (layout.elements == 0) return;
  const auto kernel = aligned(values) ? pack_kernel<true> : pack_kernel<false>;
  kernel<<<blocks_of(layout.padded()), threads, 0, stream>>>(
      layout.elements, layout.padded() / width, values, as_bf16(packed));
  TANDEM_CUDA_CHECK_LAUNCH();
}

void sum_bf16(CUstream_st* stream, const Bf16SumLayout& layout, int rank,
              const std::uint16_t* received, std::uint16_t* own) {
  if (layout.elements == 0) return;
  sum_kernel<<<blocks_of(layout.shard), threads, 0, stream>>>(layout.shard, layout.ranks, rank,
                                                              as_bf16(received), as_bf16(own));
  TANDEM_CUDA_CHECK_LAUNCH();
}

void unpack_bf16(CUstream_st* stream, const Bf16SumLayout& layout, const std::uint16_t* packed,
                 float* values) {
  if (layout.elements == 0) return;
  const auto kernel = aligned(values) ? unpack_kernel<true> : unpack_kernel<false>;
  kernel<<<blocks_of(layout.elements), threads, 0, stream>>>(layout.elements, as_bf16(packed),
                                                             values);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
