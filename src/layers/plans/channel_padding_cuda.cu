#include <limits>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/channel_padding.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;

/// item / divisor; 64-bit divisions take several times as long and are hardly ever needed.
__device__ __forceinline__ std::int64_t quotient(std::int64_t item, int divisor) {
  if (item <= 0xffffffffLL) {
    return static_cast<unsigned>(item) / static_cast<unsigned>(divisor);
  }
  return item / divisor;
}

/// One thread for `Width` columns of a padded row, `packs` of them in each. Neighbouring threads
/// read neighbouring elements, so that narrow reads still fill their cache lines.
template <typename T, int Width>
__global__ void pad_rows(std::int64_t rows, int columns, std::int64_t count, int packs,
                         const T* __restrict__ matrix, T* __restrict__ padded) {
  const std::int64_t item = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= count) return;
  const std::int64_t row = quotient(item, packs);
  const int first = static_cast<int>(item - row * packs) * Width;
  Pack<T, Width> out;
  const T* source = matrix + row * columns + first;
#pragma unroll
  for (int i = 0; i < Width; ++i) {
    out.values[i] = row < rows && first + i < columns ? source[i] : from_float<T>(0.0F);
  }
  out.store(padded + item * Width);
}

/// One thread for `Width` columns of a row that is kept; Width divides `columns`.
template <typename From, typename To, int Width>
__global__ void crop_rows(std::int64_t count, int packs, std::int64_t padded_columns,
                          const From* __restrict__ padded, To* __restrict__ matrix) {
  const std::int64_t item = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= count) return;
  const std::int64_t row = quotient(item, packs);
  const std::int64_t first = (item - row * packs) * Width;
  const auto in = Pack<From, Width>::load(padded + row * padded_columns + first);
  Pack<To, Width> out;
#pragma unroll
  for (int i = 0; i < Width; ++i) out.set(i, in.get(i));
  out.store(matrix + item * Width);
}

template <typename T, int Width>
void launch_pad(CudaContext& context, const Padding& padding, const void* matrix, void* padded) {
  const std::int64_t packs = padding.padded_columns / Width;
  const std::int64_t count = padding.padded_rows * packs;
  pad_rows<T, Width><<<blocks_for(count, threads), threads, 0, context.stream()>>>(
      padding.rows, static_cast<int>(padding.columns), count, static_cast<int>(packs),
      static_cast<const T*>(matrix), static_cast<T*>(padded));
  TANDEM_CUDA_CHECK_LAUNCH();
}

template <typename From, typename To, int Width>
void launch_crop(CudaContext& context, const Padding& padding, const void* padded, void* matrix) {
  const std::int64_t packs = padding.columns / Width;
  const std::int64_t count = padding.rows * packs;
  crop_rows<From, To, Width><<<blocks_for(count, threads), threads, 0, context.stream()>>>(
      count, static_cast<int>(packs), padding.padded_columns, static_cast<const From*>(padded),
      static_cast<To*>(matrix));
  TANDEM_CUDA_CHECK_LAUNCH();
}

template <typename From, typename To>
void crop(CudaContext& context, const Padding& padding, const void* padded, void* matrix) {
  if (padding.columns % 4 == 0) return launch_crop<From, To, 4>(context, padding, padded, matrix);
  if (padding.columns % 2 == 0) return launch_crop<From, To, 2>(context, padding, padded, matrix);
  launch_crop<From, To, 1>(context, padding, padded, matrix);
}

void expect_padding(const Padding& padding) {
  TANDEM_CHECK(padding.padded_columns % 4 == 0, "rows padded to {} columns",
               padding.padded_columns);
  TANDEM_CHECK(padding.padded_columns <= std::numeric_limits<int>::max(),
               "{} channels are too many for a CUDA kernel", padding.padded_columns);
}

}  // namespace

void pad_matrix(CudaContext& context, const Padding& padding, DType dtype, const void* matrix,
                void* padded) {
  expect_padding(padding);
  with_element_type(dtype, [&](auto element) {
    using T = decltype(element);
    if (padding.padded_columns % full_pack<T> == 0) {
      launch_pad<T, full_pack<T>>(context, padding, matrix, padded);
    } else {
      launch_pad<T, 4>(context, padding, matrix, padded);
    }
  });
}

void crop_matrix(CudaContext& context, const Padding& padding, DType padded_dtype,
                 const void* padded, DType dtype, void* matrix) {
  expect_padding(padding);
  with_element_type(padded_dtype, [&](auto element) {
    using T = decltype(element);
    if (dtype == padded_dtype) return crop<T, T>(context, padding, padded, matrix);
    TANDEM_CHECK(dtype == DType::f32, "a crop to {}", name_of(dtype));
    crop<T, float>(context, padding, padded, matrix);
  });
}

}  // namespace tandem
