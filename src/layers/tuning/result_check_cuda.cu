#include <algorithm>

#include "device/cuda_check.h"
#include "layers/tuning/result_check.h"
#include "layers/tuning/trial_operand.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
constexpr unsigned most_blocks = 1024;

unsigned blocks_of(std::int64_t count) {
  return static_cast<unsigned>(
      std::min<std::int64_t>((count + threads - 1) / threads, most_blocks));
}

template <typename T>
__global__ void __launch_bounds__(threads)
    fill_random(std::int64_t count, unsigned seed, float scale, T* __restrict__ data) {
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += stride) {
    data[i] = from_float<T>(trial_operand(i, seed, scale));
  }
}

/// Of values that are not negative, whose bits compare as they do.
__device__ __forceinline__ void add_largest(float value, float* largest) {
  for (int apart = 16; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_down_sync(0xffffffffU, value, static_cast<unsigned>(apart)));
  }
  if (threadIdx.x % 32 == 0) {
    atomicMax(reinterpret_cast<unsigned*>(largest), __float_as_uint(value));
  }
}

/// Whole numbers alone are added up, so that no order of the blocks shows.
__device__ __forceinline__ void add_sum(std::uint64_t value, std::uint64_t* sum) {
  for (int apart = 16; apart > 0; apart /= 2) {
    value += __shfl_down_sync(0xffffffffU, value, static_cast<unsigned>(apart));
  }
  if (threadIdx.x % 32 == 0) {
    atomicAdd(reinterpret_cast<unsigned long long*>(sum), static_cast<unsigned long long>(value));
  }
}

template <typename T>
__global__ void __launch_bounds__(threads)
    find(std::int64_t count, const T* __restrict__ result, ResultSamples samples,
         const float* __restrict__ reference, ResultFindings* findings) {
  std::uint64_t not_finite = 0;
  std::uint64_t checksum = 0;
  float difference = 0.0F;
  float largest = 0.0F;
  const std::int64_t stride = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += stride) {
    const float value = to_float(result[i]);
    checksum += mix64((static_cast<std::uint64_t>(i) << 32U) ^ __float_as_uint(value));
    const bool finite = isfinite(value);
    if (!finite) ++not_finite;
    const std::int64_t sample = i / samples.step;
    if (sample >= samples.count || samples.place(sample) != i) continue;
    const float wanted = reference[sample];
    if (!isfinite(wanted)) ++not_finite;  // fmaxf() passes over NaN
    largest = fmaxf(largest, fabsf(wanted));
    if (finite) difference = fmaxf(difference, fabsf(value - wanted));
  }
  add_sum(not_finite, &findings->not_finite);
  add_sum(checksum, &findings->checksum);
  add_largest(difference, &findings->largest_difference);
  add_largest(largest, &findings->largest_value);
}

}  // namespace

void fill_operand(CudaContext& context, DType dtype, std::int64_t count, unsigned seed, float scale,
                  void* data) {
  with_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    fill_random<<<blocks_of(count), threads, 0, context.stream()>>>(count, seed, scale,
                                                                    static_cast<T*>(data));
  });
  TANDEM_CUDA_CHECK_LAUNCH();
}

void fill_with_nan(CudaContext& context, std::size_t bytes, void* data) {
  if (bytes == 0) return;
  TANDEM_CUDA_CHECK(cudaMemsetAsync(data, 0xff, bytes, context.stream()));
}

void enqueue_findings(CudaContext& context, DType dtype, std::int64_t count, const void* result,
                      const ResultSamples& samples, const float* reference,
                      ResultFindings* findings) {
  TANDEM_CUDA_CHECK(cudaMemsetAsync(findings, 0, sizeof(ResultFindings), context.stream()));
  with_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    find<<<blocks_of(count), threads, 0, context.stream()>>>(count, static_cast<const T*>(result),
                                                             samples, reference, findings);
  });
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
