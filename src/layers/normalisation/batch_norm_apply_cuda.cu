#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

enum class Residual : std::uint8_t { none, finished, left };

/// No __restrict__: y may be x.
template <typename T, int V, Activation A, Residual R>
__global__ void __launch_bounds__(elementwise_threads, R == Residual::left ? 3 : 4)
    apply_kernel(RowTiles tiles, const T* x, BatchNormTable tables, const T* residual,
                 InputNorm norm, T* y, std::uint8_t* passes) {
  constexpr bool adds = R != Residual::none;
  constexpr bool is_left = R == Residual::left;
  constexpr int unroll = adds ? 2 : 4;
  const TilePlace place = tile_place(tiles);
  if (!place.inside) return;
  x = in_group(tiles, x);
  y = in_group(tiles, y);
  if constexpr (adds) residual = in_group(tiles, residual);
  passes = in_group_of_packs(tiles, passes);
  const BatchNormTable table = table_of_group(tables);
  float scale[V];
  float shift[V];
  load_channels<V>(tiles, place.pack, table.scale, scale);
  load_channels<V>(tiles, place.pack, table.shift, shift);
  float residual_scale[is_left ? V : 1];
  float residual_shift[is_left ? V : 1];
  if constexpr (is_left) {
    const int in_table = static_cast<int>(blockIdx.z) * norm.apart;
    load_channels<V>(tiles, place.pack, norm.scale + in_table, residual_scale);
    load_channels<V>(tiles, place.pack, norm.shift + in_table, residual_shift);
  }
  const auto one = [&](int i, float value, float add) {
    const float normal = fmaf(value, scale[i], shift[i]);
    return activate<A>(adds ? normal + add : normal);
  };
  // As it would have been stored.
  const auto finish = [&](int i, float add) {
    if constexpr (is_left) {
      return to_float(from_float<T>(fmaf(add, residual_scale[i], residual_shift[i])));
    }
    return add;
  };
  const int begin = place.pack * V;
  WaitingPack<T, V> in[unroll];
  WaitingPack<T, V> also[adds ? unroll : 1];
  for_rows<unroll, false>(
      tiles, place.lane,
      [&](int u, std::int64_t offset) {
        in[u] = WaitingPack<T, V>::load(x + begin + offset);
        if constexpr (adds) also[u] = WaitingPack<T, V>::load(residual + begin + offset);
      },
      [&](int u, std::int64_t offset) {
        float out[V];
#pragma unroll
        for (int i = 0; i < V; ++i) {
          out[i] = one(i, in[u].get(i), adds ? finish(i, also[adds ? u : 0].get(i)) : 0.0F);
        }
        const auto result = WaitingPack<T, V>::of(out);
        result.store(y + begin + offset);
        if constexpr (adds && has_passes<V, A>) {
          if (passes != nullptr) passes[(begin + offset) / V] = passes_of<A>(result);
        }
      });
  for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
    float add = 0.0F;
    if constexpr (adds) add = finish(i, to_float(residual[at]));
    y[at] = from_float<T>(one(i, to_float(x[at]), add));
  });
}

}  // namespace

void batch_norm_apply(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                      const BatchNormTable& table, const BatchNormResidual& residual,
                      Activation activation, const Tensor& y, std::uint8_t* passes) {
  const bool aligned = packs_aligned(x.raw(), residual.tensor.raw(), y.raw());
  TANDEM_CHECK(residual.norm.activation == Activation::none,
               "a residual to finish with an activation");
  TANDEM_CHECK(passes == nullptr || (aligned && residual.tensor.defined()),
               "where gradients pass, of no packs or no sum");
  with_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      constexpr Activation A = decltype(chosen)::value;
      const RowTiles tiles = elementwise_tiles(context, shape, V);
      auto* kernel = &apply_kernel<T, V, A, Residual::none>;
      if (residual.tensor.defined()) {
        kernel = residual.norm.scale == nullptr ? &apply_kernel<T, V, A, Residual::finished>
                                                : &apply_kernel<T, V, A, Residual::left>;
      }
      kernel<<<grid_of(tiles), elementwise_threads, 0, context.stream()>>>(
          tiles, static_cast<const T*>(x.raw()), table,
          static_cast<const T*>(residual.tensor.raw()), residual.norm, static_cast<T*>(y.raw()),
          passes);
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
