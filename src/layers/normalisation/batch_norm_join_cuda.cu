#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_join_cuda.cuh"

namespace tandem {
namespace {

template <typename T, int V, Activation A>
__global__ void __launch_bounds__(elementwise_threads, 4)
    join_kernel(RowTiles tiles, const T* __restrict__ x, BatchNormTable tables,
                const T* __restrict__ other, int times, T* __restrict__ joined) {
  constexpr int unroll = 4;
  const TilePlace place = tile_place(tiles);
  if (!place.inside) return;
  x = in_group(tiles, x);
  other = in_group(tiles, other, times);
  joined = in_group(tiles, joined, 2);
  const BatchNormTable table = table_of_group(tables);
  float scale[V];
  float shift[V];
  load_channels<V>(tiles, place.pack, table.scale, scale);
  load_channels<V>(tiles, place.pack, table.shift, shift);
  const auto one = [&](int i, float value) { return activate<A>(fmaf(value, scale[i], shift[i])); };
  const int begin = place.pack * V;
  const OtherPlaces<T, V> places(tiles, begin, times);
  WaitingPack<T, V> in[unroll];
  WaitingPack<T, V> between[unroll];
  for_rows<unroll, false>(
      tiles, place.lane,
      [&](int u, std::int64_t row) {
        in[u] = WaitingPack<T, V>::load(x + begin + row);
        between[u] = places.load(other, row);
      },
      [&](int u, std::int64_t row) {
        float out[V];
#pragma unroll
        for (int i = 0; i < V; ++i) out[i] = one(i, in[u].get(i));
        JoinedPack<T, V>::of(between[u], WaitingPack<T, V>::of(out))
            .store(joined + 2 * (begin + row));
      });
  for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
    joined[2 * at] = other[other_place(tiles, at, times)];
    joined[2 * at + 1] = from_float<T>(one(i, to_float(x[at])));
  });
}

}  // namespace

void batch_norm_join(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                     const BatchNormTable& table, Activation activation, const Tensor& other,
                     const Tensor& joined) {
  const bool aligned = packs_aligned(x.raw(), other.raw(), joined.raw());
  with_joined_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_joined_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      const RowTiles tiles = elementwise_tiles(context, shape, V);
      join_kernel<T, V, decltype(chosen)::value>
          <<<grid_of(tiles), elementwise_threads, 0, context.stream()>>>(
              tiles, static_cast<const T*>(x.raw()), table, static_cast<const T*>(other.raw()),
              times_the_channels(other, x), static_cast<T*>(joined.raw()));
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
