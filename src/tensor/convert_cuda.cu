#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "device/memory_kernels.h"
#include "tensor/cuda_elements.cuh"
#include "tensor/tensor_kernels.h"

namespace tandem {
namespace {

constexpr int threads = 256;

template <typename From, typename To>
__global__ void convert_packs(std::int64_t count, const From* from, To* to) {
  constexpr int pack = 4;
  const std::int64_t at = (std::int64_t{blockIdx.x} * threads + threadIdx.x) * pack;
  if (at + pack <= count) {
    const auto in = Pack<From, pack>::load(from + at);
    Pack<To, pack> out;
#pragma unroll
    for (int i = 0; i < pack; ++i) out.set(i, in.get(i));
    out.store(to + at);
  } else {
    for (std::int64_t i = at; i < count; ++i) to[i] = from_float<To>(to_float(from[i]));
  }
}

template <typename T>
__global__ void find_non_finite(std::int64_t count, const T* values, int* found) {
  bool bad = false;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * threads) {
    bad = bad || !isfinite(to_float(values[i]));
  }
  if (bad) *found = 1;
}

}  // namespace

void convert(CudaContext& context, const Tensor& from, const Tensor& to) {
  with_element_type(from.dtype(), [&](auto in) {
    with_element_type(to.dtype(), [&](auto out) {
      using From = decltype(in);
      using To = decltype(out);
      const std::int64_t count = from.elements();
      convert_packs<<<blocks_for((count + 3) / 4, threads), threads, 0, context.stream()>>>(
          count, static_cast<const From*>(from.raw()), static_cast<To*>(to.raw()));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

bool all_finite(CudaContext& context, const Tensor& tensor) {
  if (tensor.elements() == 0) return true;
  const DeviceBuffer memory = DeviceBuffer::zeroed(context, sizeof(int));
  auto* const found = memory.as<int>();
  with_element_type(tensor.dtype(), [&](auto element) {
    using T = decltype(element);
    const unsigned blocks = min(blocks_for(tensor.elements(), threads), 2048U);
    find_non_finite<<<blocks, threads, 0, context.stream()>>>(
        tensor.elements(), static_cast<const T*>(tensor.raw()), found);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
  int result = 0;
  copy_to_host(context, found, sizeof(int), &result);
  return result == 0;
}

}  // namespace tandem
