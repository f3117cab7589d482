#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "parallel/slice_hashes.h"

namespace tandem {
namespace {

constexpr int threads = 256;
/// Blocks that share a range.
constexpr int parts = 64;

/// Grid (ranges, parts). Adding up integers in any order gives the same bits.
__global__ void __launch_bounds__(threads)
    hash_kernel(const std::uint32_t* __restrict__ elements, const ElementRange* ranges,
                unsigned long long* hashes) {
  const ElementRange range = ranges[blockIdx.x];
  const std::uint32_t* from = elements + range.offset;
  unsigned long long sum = 0;
#pragma unroll 4
  for (std::int64_t i = blockIdx.y * threads + threadIdx.x; i < range.elements;
       i += parts * threads) {
    sum += element_hash(static_cast<std::uint64_t>(range.offset + i), from[i]);
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(~0U, sum, apart);
  if (threadIdx.x % 32 == 0 && sum != 0) atomicAdd(&hashes[blockIdx.x], sum);
}

}  // namespace

std::vector<std::uint64_t> hash_ranges(CudaContext& context, const std::uint32_t* elements,
                                       std::span<const ElementRange> ranges) {
  std::vector<std::uint64_t> hashes(ranges.size());
  if (ranges.empty()) return hashes;
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  const DeviceBuffer where(context, ranges.size_bytes());
  const DeviceBuffer sums = DeviceBuffer::zeroed(context, hashes.size() * sizeof(std::uint64_t));
  copy_to_device(context, ranges.data(), where.bytes(), where.data());
  const dim3 grid(static_cast<unsigned>(ranges.size()), parts);
  hash_kernel<<<grid, threads, 0, context.stream()>>>(elements, where.as<ElementRange>(),
                                                      sums.as<unsigned long long>());
  TANDEM_CUDA_CHECK_LAUNCH();
  copy_to_host(context, sums.data(), sums.bytes(), hashes.data());
  return hashes;
}

}  // namespace tandem
