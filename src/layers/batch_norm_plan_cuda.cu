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
  for (const int pack : {16 / static_cast<int>(size_of(dtype)), 1}) {
    use(statistics_tiles(context, shape, pack));
    use(gradient_tiles(context, shape, pack));
  }
}

}  // namespace

std::size_t BatchNormTable::bytes(std::int64_t channels) { return 4 * table_stride(channels); }

BatchNormTable BatchNormTable::at(std::byte* memory, std::int64_t channels) {
  const std::size_t stride = table_stride(channels);
  return {.mean = reinterpret_cast<float*>(memory),
          .inverse_deviation = reinterpret_cast<float*>(memory + stride),
          .scale = reinterpret_cast<float*>(memory + 2 * stride),
          .shift = reinterpret_cast<float*>(memory + 3 * stride)};
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
                [&](const RowTiles& tiles) { most = std::max(most, tiles.tiles); });
  return static_cast<std::size_t>(most);
}

}  // namespace tandem
