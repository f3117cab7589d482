#include <algorithm>
#include <type_traits>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/linear/bias_cuda.h"
#include "tensor/cuda_elements.cuh"

namespace tandem {
namespace {

constexpr int threads = 256;
/// A block of column_sums: neighbouring threads sum neighbouring columns, `lines` of them every
/// lines-th row.
constexpr int lane_count = 32;
constexpr int lines = threads / lane_count;
constexpr std::int64_t rows_a_slab = 128;
constexpr std::int64_t most_slabs = 128;

template <typename T, int Width>
__global__ void add_to_rows(std::int64_t packs, int packs_a_row, const float* __restrict__ bias,
                            T* __restrict__ y) {
  const std::int64_t item = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= packs) return;
  // 64-bit divisions take several times as long and are hardly ever needed.
  const auto pack = item <= 0xffffffffLL
                        ? static_cast<unsigned>(item) % static_cast<unsigned>(packs_a_row)
                        : static_cast<unsigned>(item % packs_a_row);
  const std::int64_t column = std::int64_t{pack} * Width;
  auto value = Pack<T, Width>::load(y + item * Width);
#pragma unroll
  for (int i = 0; i < Width; ++i) value.set(i, value.get(i) + bias[column + i]);
  value.store(y + item * Width);
}

/// Slab blockIdx.y's rows of columns [Width * 32 * blockIdx.x, ...), summed into row blockIdx.y of
/// `sums`.
template <typename T, int Width>
__global__ void sum_slabs(std::int64_t rows, std::int64_t columns, std::int64_t slab_rows,
                          const T* __restrict__ values, float* __restrict__ sums) {
  const int lane = threadIdx.x % lane_count;
  const int line = threadIdx.x / lane_count;
  const std::int64_t column = (std::int64_t{blockIdx.x} * lane_count + lane) * Width;
  const std::int64_t begin = blockIdx.y * slab_rows;
  const std::int64_t end = min(begin + slab_rows, rows);
  float sum[Width] = {};
  if (column < columns) {
#pragma unroll 4
    for (std::int64_t row = begin + line; row < end; row += lines) {
      const auto value = Pack<T, Width>::load(values + row * columns + column);
#pragma unroll
      for (int i = 0; i < Width; ++i) sum[i] += value.get(i);
    }
  }
  __shared__ float parts[lines][lane_count * Width];
#pragma unroll
  for (int i = 0; i < Width; ++i) parts[line][lane * Width + i] = sum[i];
  __syncthreads();
  const std::int64_t first = std::int64_t{blockIdx.x} * lane_count * Width;
  for (int i = threadIdx.x; i < lane_count * Width && first + i < columns; i += threads) {
    float total = 0.0F;
#pragma unroll
    for (int l = 0; l < lines; ++l) total += parts[l][i];
    sums[blockIdx.y * columns + first + i] = total;
  }
}

__global__ void add_slabs(int slabs, std::int64_t columns, const float* __restrict__ parts,
                          float* __restrict__ sums) {
  const std::int64_t column = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (column >= columns) return;
  float total = 0.0F;
  for (int slab = 0; slab < slabs; ++slab) total += parts[slab * columns + column];
  sums[column] = total;
}

std::int64_t slab_count(std::int64_t rows) {
  return std::clamp<std::int64_t>((rows + rows_a_slab - 1) / rows_a_slab, 1, most_slabs);
}

template <typename T, int Width>
void launch_add(CudaContext& context, const Tensor& bias, const Tensor& y) {
  const std::int64_t packs = y.elements() / Width;
  add_to_rows<T, Width><<<blocks_for(packs, threads), threads, 0, context.stream()>>>(
      packs, static_cast<int>(bias.elements() / Width), bias.data<float>(),
      static_cast<T*>(y.raw()));
  TANDEM_CUDA_CHECK_LAUNCH();
}

template <typename T, int Width>
void launch_sums(CudaContext& context, std::int64_t rows, std::int64_t columns, const Tensor& dy,
                 float* sums) {
  const std::int64_t slabs = slab_count(rows);
  const std::int64_t slab_rows = (rows + slabs - 1) / slabs;
  const dim3 grid(blocks_for(columns, lane_count * Width), static_cast<unsigned>(slabs));
  sum_slabs<T, Width><<<grid, threads, 0, context.stream()>>>(
      rows, columns, slab_rows, static_cast<const T*>(dy.raw()), sums);
  TANDEM_CUDA_CHECK_LAUNCH();
}

/// Calls `use` with how many elements of T each access takes, as a constant: whole 16-byte words
/// where rows of `columns` are made of them.
template <typename T, typename Use>
void with_width(std::int64_t columns, Use&& use) {
  if (columns % full_pack<T> == 0) {
    use(std::integral_constant<int, full_pack<T>>());
  } else if (columns % 2 == 0) {
    use(std::integral_constant<int, 2>());
  } else {
    use(std::integral_constant<int, 1>());
  }
}

}  // namespace

void add_bias(CudaContext& context, const Tensor& bias, const Tensor& y) {
  with_element_type(y.dtype(), [&](auto element) {
    using T = decltype(element);
    with_width<T>(bias.elements(),
                  [&](auto width) { launch_add<T, decltype(width)::value>(context, bias, y); });
  });
}

void column_sums(CudaContext& context, const Tensor& dy, const Tensor& sums, std::byte* scratch) {
  const std::int64_t columns = sums.elements();
  const std::int64_t rows = dy.elements() / columns;
  const std::int64_t slabs = slab_count(rows);
  auto* result = sums.data<float>();
  auto* parts = slabs == 1 ? result : reinterpret_cast<float*>(scratch);
  with_element_type(dy.dtype(), [&](auto element) {
    using T = decltype(element);
    with_width<T>(columns, [&](auto width) {
      launch_sums<T, decltype(width)::value>(context, rows, columns, dy, parts);
    });
  });
  if (slabs == 1) return;
  add_slabs<<<blocks_for(columns, threads), threads, 0, context.stream()>>>(static_cast<int>(slabs),
                                                                            columns, parts, result);
  TANDEM_CUDA_CHECK_LAUNCH();
}

std::size_t column_sums_scratch(std::int64_t rows, std::int64_t columns) {
  const std::int64_t slabs = slab_count(rows);
  return slabs == 1 ? 0 : static_cast<std::size_t>(slabs * columns) * sizeof(float);
}

}  // namespace tandem
