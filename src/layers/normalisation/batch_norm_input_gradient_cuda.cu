#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

/// No __restrict__ for the gradients: they may be the same.
template <typename T, int V, Activation A>
__global__ void __launch_bounds__(elementwise_threads, 3)
    input_gradient_kernel(RowTiles tiles, const T* __restrict__ x, const T* output_gradient,
                          BatchNormGradients gradients, T* input_gradient) {
  constexpr int unroll = 2;
  const TilePlace place = tile_place(tiles);
  if (!place.inside) return;
  x = in_group(tiles, x);
  output_gradient = in_group(tiles, output_gradient);
  input_gradient = in_group(tiles, input_gradient);
  const BatchNormTable table = table_of_group(gradients.table);
  const int in_table = group_place(gradients.table);
  float scale[V];
  float shift[V];
  float slope[V];
  float offset[V];
  load_channels<V>(tiles, place.pack, table.scale, scale);
  if constexpr (A != Activation::none) {
    load_channels<V>(tiles, place.pack, table.shift, shift);
  }
  load_channels<V>(tiles, place.pack, gradients.slope + in_table, slope);
  load_channels<V>(tiles, place.pack, gradients.offset + in_table, offset);
  const auto one = [&](int i, float value, float gradient) {
    float dz = gradient;
    if constexpr (A != Activation::none) {
      dz = activation_gradient_at<A>(fmaf(value, scale[i], shift[i]), gradient);
    }
    return fmaf(scale[i], dz, fmaf(slope[i], value, offset[i]));
  };
  const int begin = place.pack * V;
  WaitingPack<T, V> in[unroll];
  WaitingPack<T, V> gradient[unroll];
  for_rows<unroll, false>(
      tiles, place.lane,
      [&](int u, std::int64_t row) {
        in[u] = WaitingPack<T, V>::load(x + begin + row);
        gradient[u] = WaitingPack<T, V>::load(output_gradient + begin + row);
      },
      [&](int u, std::int64_t row) {
        float dx[V];
#pragma unroll
        for (int i = 0; i < V; ++i) dx[i] = one(i, in[u].get(i), gradient[u].get(i));
        WaitingPack<T, V>::of(dx).store(input_gradient + begin + row);
      });
  for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
    input_gradient[at] = from_float<T>(one(i, to_float(x[at]), to_float(output_gradient[at])));
  });
}

}  // namespace

void batch_norm_input_gradient(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                               const Tensor& output_gradient, Activation activation,
                               const BatchNormGradients& gradients, const Tensor& input_gradient) {
  const bool aligned = packs_aligned(x.raw(), output_gradient.raw(), input_gradient.raw());
  with_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      const RowTiles tiles = elementwise_tiles(context, shape, V);
      input_gradient_kernel<T, V, decltype(chosen)::value>
          <<<grid_of(tiles), elementwise_threads, 0, context.stream()>>>(
              tiles, static_cast<const T*>(x.raw()), static_cast<const T*>(output_gradient.raw()),
              gradients, static_cast<T*>(input_gradient.raw()));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
