#include "device/cuda_check.h"
#include "layers/batch_norm_finish_cuda.cuh"
#include "layers/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

/// No __restrict__: y may be x.
template <typename T, int V, Activation A, bool Residual>
__global__ void __launch_bounds__(elementwise_threads, 4)
    apply_kernel(RowTiles tiles, const T* x, BatchNormTable tables, const T* residual, T* y) {
  constexpr int unroll = Residual ? 2 : 4;
  const TilePlace place = tile_place(tiles);
  if (!place.inside) return;
  x = in_group(tiles, x);
  y = in_group(tiles, y);
  if constexpr (Residual) residual = in_group(tiles, residual);
  const BatchNormTable table = table_of_group(tables);
  float scale[V];
  float shift[V];
  load_channels<V>(tiles, place.pack, table.scale, scale);
  load_channels<V>(tiles, place.pack, table.shift, shift);
  const auto one = [&](int i, float value, float add) {
    const float normal = fmaf(value, scale[i], shift[i]);
    return activate<A>(Residual ? normal + add : normal);
  };
  const int begin = place.pack * V;
  WaitingPack<T, V> in[unroll];
  WaitingPack<T, V> also[Residual ? unroll : 1];
  for_rows<unroll, false>(
      tiles, place.lane,
      [&](int u, std::int64_t offset) {
        in[u] = WaitingPack<T, V>::load(x + begin + offset);
        if constexpr (Residual) also[u] = WaitingPack<T, V>::load(residual + begin + offset);
      },
      [&](int u, std::int64_t offset) {
        float out[V];
#pragma unroll
        for (int i = 0; i < V; ++i) {
          out[i] = one(i, in[u].get(i), Residual ? also[Residual ? u : 0].get(i) : 0.0F);
        }
        WaitingPack<T, V>::of(out).store(y + begin + offset);
      });
  for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
    float add = 0.0F;
    if constexpr (Residual) add = to_float(residual[at]);
    y[at] = from_float<T>(one(i, to_float(x[at]), add));
  });
}

}  // namespace

void batch_norm_apply(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                      const BatchNormTable& table, const Tensor& residual, Activation activation,
                      const Tensor& y) {
  const bool aligned = packs_aligned(x.raw(), residual.raw(), y.raw());
  with_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      constexpr Activation A = decltype(chosen)::value;
      const RowTiles tiles = elementwise_tiles(context, shape, V);
      auto* kernel = &apply_kernel<T, V, A, false>;
      if (residual.defined()) kernel = &apply_kernel<T, V, A, true>;
      kernel<<<grid_of(tiles), elementwise_threads, 0, context.stream()>>>(
          tiles, static_cast<const T*>(x.raw()), table, static_cast<const T*>(residual.raw()),
          static_cast<T*>(y.raw()));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
