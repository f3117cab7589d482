#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_gradient_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_join_cuda.cuh"

namespace tandem {
namespace {

/// `gradient` gets the result's part behind the activation, so that the second pass reads nothing
/// between; `other_gradient`, where not null, the other part.
template <typename T, int V, Activation A>
__global__ void __launch_bounds__(sum_threads, 1)
    joined_sum_kernel(RowTiles tiles, const T* __restrict__ x,
                      const T* __restrict__ joined_gradient, T* __restrict__ other_gradient,
                      int times, T* __restrict__ gradient, GradientFinish finish, ChannelSums sums,
                      double* rank_sums) {
  constexpr int unroll = 4;
  __shared__ __align__(16) float shared[2 * V * sum_threads];
  x = in_group(tiles, x);
  joined_gradient = in_group(tiles, joined_gradient, 2);
  gradient = in_group(tiles, gradient);
  const bool other_wanted = other_gradient != nullptr;
  if (other_wanted) other_gradient = in_group(tiles, other_gradient, times);
  const TilePlace place = tile_place(tiles);
  float first[V] = {};
  float second[V] = {};
  if (place.inside) {
    GradientAdder<V, A> add(tiles, place.pack, table_of_group(finish.to.table), first, second);
    const int begin = place.pack * V;
    const OtherPlaces<T, V> places(tiles, begin, times);
    WaitingPack<T, V> in[unroll];
    JoinedPack<T, V> both[unroll];
    for_rows<unroll, true>(
        tiles, place.lane,
        [&](int u, std::int64_t row) {
          in[u] = WaitingPack<T, V>::load(x + begin + row);
          both[u] = JoinedPack<T, V>::load(joined_gradient + 2 * (begin + row));
        },
        [&](int u, std::int64_t row) {
          if (other_wanted) places.store(both[u].other(), other_gradient, row);
          const WaitingPack<T, V> own = both[u].result();
          float dz[V];
#pragma unroll
          for (int i = 0; i < V; ++i) dz[i] = add(i, in[u].get(i), own.get(i));
          WaitingPack<T, V>::of(dz).store(gradient + begin + row);
        });
    for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
      if (other_wanted) {
        T* to = other_gradient + other_place(tiles, at, times);
        *to = joined_gradient[2 * at];
        for (int part = 1; part < times; ++part) to[part * tiles.channels] = from_float<T>(0.0F);
      }
      gradient[at] = from_float<T>(add(i, to_float(x[at]), to_float(joined_gradient[2 * at + 1])));
    });
  }
  finish_gradient_sums<V>(tiles, place, first, second, shared, finish, sums, rank_sums);
}

}  // namespace

void batch_norm_sum_joined_gradients(CudaContext& context, const BatchNormShape& shape,
                                     const Tensor& x, const Tensor& joined_gradient,
                                     Activation activation, const Tensor& other_gradient,
                                     const Tensor& gradient, const BatchNormGradients& gradients,
                                     const BatchNormWork& work) {
  const bool aligned =
      packs_aligned(x.raw(), joined_gradient.raw(), other_gradient.raw(), gradient.raw());
  with_joined_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_joined_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      const RowTiles tiles = gradient_tiles(context, shape, V);
      joined_sum_kernel<T, V, decltype(chosen)::value>
          <<<grid_of(tiles), sum_threads, 0, context.stream()>>>(
              tiles, static_cast<const T*>(x.raw()), static_cast<const T*>(joined_gradient.raw()),
              static_cast<T*>(other_gradient.raw()), times_the_channels(other_gradient, x),
              static_cast<T*>(gradient.raw()), finish_of(gradients), channel_sums_of(work),
              work.rank_sums);
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

}  // namespace tandem
