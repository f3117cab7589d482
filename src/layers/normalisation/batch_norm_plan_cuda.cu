#include "device/arena.h"
#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"
#include "layers/normalisation/persistent_tiles_cuda.h"

namespace tandem {
namespace {

std::size_t table_stride(std::int64_t channels) {
  return Arena::align(static_cast<std::size_t>(channels) * sizeof(float));
}

/// No less than what a persistent kernel's block has beside its dynamic shared memory.
constexpr std::size_t static_shared = 2048;

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

std::optional<PersistentTiles> make_persistent_tiles(const CudaContext& context,
                                                     const BatchNormShape& shape, DType dtype) {
  constexpr int pack_bytes = 16;
  const int pack = pack_bytes / static_cast<int>(size_of(dtype));
  if (shape.groups != 1 || shape.channels % pack != 0) return std::nullopt;
  context.activate();
  int most_shared = 0;
  TANDEM_CUDA_CHECK(cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                                           context.device().index));
  PersistentTiles made{.rows = channel_sum_tiles(shape, pack, context.device().multiprocessors)};
  const auto parts = static_cast<std::size_t>(made.parts());
  const std::size_t fixed =
      static_shared + parts * sizeof(int) +
      std::size_t{2} * sum_threads * static_cast<std::size_t>(pack) * sizeof(float);
  const auto most = static_cast<std::size_t>(most_shared);
  const std::size_t slot = std::size_t{sum_threads} * pack_bytes;
  if (fixed + slot > most) return std::nullopt;
  const std::int64_t step = std::int64_t{made.rows.chunks} * made.rows.lanes;
  const auto wanted = static_cast<std::size_t>((made.rows.rows + step - 1) / step);
  const std::size_t slots = std::min((most - fixed) / slot, wanted);
  made.slots = static_cast<int>(slots);
  made.shared_bytes = fixed - static_shared + slots * slot;
  return made;
}

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

InputNorm input_norm_of(const DeferredNorm& left, std::byte* table, std::int64_t channels,
                        std::int64_t samples) {
  TANDEM_CHECK(table != nullptr, "an input to normalise without a table");
  const BatchNormTable of =
      BatchNormTable::at(table, {.channels = channels, .groups = left.groups});
  return {.activation = left.activation,
          .scale = of.scale,
          .shift = of.shift,
          .apart = of.apart,
          .samples = static_cast<int>(samples / left.groups)};
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
