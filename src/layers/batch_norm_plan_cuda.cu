#include "device/arena.h"
#include "layers/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

std::size_t table_stride(std::int64_t channels) {
  return Arena::align(static_cast<std::size_t>(channels) * sizeof(float));
}

/// Calls `use(tiles)` for every way in which sums may be taken.
template <typename Use>
void for_sum_tiles(const CudaContext& context, const BatchNormShape& shape, DType dtype,
                   const Use& use) {
  const int full = 16 / static_cast<int>(size_of(dtype));
  // Half ones where the result is joined.
  for (const int pack : {full, full / 2, 1}) {
    use(statistics_tiles(context, shape, pack));
    use(gradient_tiles(context, shape, pack));
  }
}

}  // namespace

std::size_t BatchNormTable::bytes(const BatchNormShape& shape) {
  return 4 * table_stride(shape.channels) * static_cast<std::size_t>(shape.groups);
}

BatchNormTable BatchNormTable::at(std::byte* memory, const BatchNormShape& shape) {
  const std::size_t apart = table_stride(shape.channels);
  const std::size_t stride = apart * static_cast<std::size_t>(shape.groups);
  return {.mean = reinterpret_cast<float*>(memory),
          .inverse_deviation = reinterpret_cast<float*>(memory + stride),
          .scale = reinterpret_cast<float*>(memory + 2 * stride),
          .shift = reinterpret_cast<float*>(memory + 3 * stride),
          .apart = static_cast<int>(apart / sizeof(float))};
}

std::size_t batch_norm_partial_bytes(const CudaContext& context, const BatchNormShape& shape,
                                     DType dtype) {
  std::size_t floats = 0;
  for_sum_tiles(context, shape, dtype, [&](const RowTiles& tiles) {
    floats = std::max(floats, channel_sum_floats(tiles));
  });
  return Arena::align(floats * sizeof(float));
}

std::size_t batch_norm_counters(const CudaContext& context, const BatchNormShape& shape,
                                DType dtype) {
  int most = 0;
  for_sum_tiles(context, shape, dtype,
                [&](const RowTiles& tiles) { most = std::max(most, channel_sum_counters(tiles)); });
  return static_cast<std::size_t>(most);
}

}  // namespace tandem
