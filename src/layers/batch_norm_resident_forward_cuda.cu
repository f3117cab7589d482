#include "layers/batch_norm_finish_cuda.cuh"
#include "layers/batch_norm_plan_cuda.cuh"
#include "layers/resident_sums_cuda.cuh"

namespace tandem {
namespace {

/// What a channel's owner needs beside the sums, loaded before those are there.
struct OwnedChannel {
  float weight = 0.0F;
  float bias = 0.0F;
  float pivot = 0.0F;
  RunningStatistics running{};
};

template <typename T>
__device__ __forceinline__ OwnedChannel load_owned(const BatchNormStatistics& from, const T* x,
                                                   int channel) {
  OwnedChannel owned{from.weight[channel], from.bias[channel], to_float(x[channel])};
  // Of other groups it would be read while the first one's is stored.
  if (blockIdx.z == 0) owned.running = load_running(from, channel);
  return owned;
}

/// No __restrict__: y may be x.
template <typename T, int V, Activation A, bool Residual>
__global__ void __launch_bounds__(resident_threads, 1)
    forward_kernel(ResidentTiles tiles, const T* x, StatisticsFinish finish, const T* residual,
                   T* y) {
  constexpr int kept = resident_packs<T, V>;
  __shared__ __align__(16) float scales[resident_columns];
  __shared__ __align__(16) float shifts[resident_columns];
  x = in_group(tiles, x);
  y = in_group(tiles, y);
  if constexpr (Residual) residual = in_group(tiles, residual);
  const ResidentPlace place = resident_place(tiles);
  const SummedChannel channel = summed_channel<V>(tiles);
  OwnedChannel owned;
  if (channel.owned) owned = load_owned(finish.to, x, channel.number);

  WaitingPack<T, V> in[kept];
  WaitingPack<T, V> also[Residual ? kept : 1];
  WaitingPack<T, V> pivot{};
  if (place.inside) pivot = WaitingPack<T, V>::load(x + place.pack * V);
  for_kept<kept, V>(tiles, place, [&](int k, int offset) {
    in[k] = WaitingPack<T, V>::load(x + offset);
    if constexpr (Residual) also[k] = WaitingPack<T, V>::load(residual + offset);
  });
  float first[V] = {};
  float second[V] = {};
  for_kept<kept, V>(tiles, place, [&](int k, int) {
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float d = in[k].get(i) - pivot.get(i);
      first[i] += d;
      second[i] = fmaf(d, d, second[i]);
    }
  });
  const ChannelTotals totals = sum_over_rows<V>(tiles, first, second);
  const ChannelMoments moments =
      moments_about(static_cast<double>(owned.pivot), totals.first * finish.per_row,
                    totals.second * finish.per_row);
  ChannelTable table{};
  if (channel.owned) {
    table = channel_table(static_cast<float>(moments.mean), static_cast<float>(moments.variance),
                          finish.to.epsilon, owned.weight, owned.bias);
    scales[channel.at] = table.scale;
    shifts[channel.at] = table.shift;
  }
  __syncthreads();
  sums_are_used(tiles);

  float scale[V];
  float shift[V];
  load_floats<V>(scales + place.column * V, scale);
  load_floats<V>(shifts + place.column * V, shift);
  for_kept<kept, V>(tiles, place, [&](int k, int offset) {
    float out[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const float normal = fmaf(in[k].get(i), scale[i], shift[i]);
      out[i] = activate<A>(Residual ? normal + also[Residual ? k : 0].get(i) : normal);
    }
    WaitingPack<T, V>::of(out).store(y + offset);
  });
  // One of a tile's blocks stores what all of them found.
  if (channel.owned && blockIdx.y == 0) {
    store_table(table_of_group(finish.to.table), channel.number, table);
    if (blockIdx.z == 0) store_running(finish, channel.number, owned.running, moments);
  }
  leave_cluster(tiles);
}

}  // namespace

void batch_norm_resident_forward(CudaContext& context, const ResidentTiles& tiles, const Tensor& x,
                                 const BatchNormStatistics& statistics, const Tensor& residual,
                                 Activation activation, const Tensor& y) {
  with_resident_packs(x.dtype(), tiles.pack, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      constexpr Activation A = decltype(chosen)::value;
      auto* kernel = &forward_kernel<T, V, A, false>;
      if (residual.defined()) kernel = &forward_kernel<T, V, A, true>;
      launch_resident(context, tiles, kernel, tiles, static_cast<const T*>(x.raw()),
                      finish_of(statistics), static_cast<const T*>(residual.raw()),
                      static_cast<T*>(y.raw()));
    });
  });
}

}  // namespace tandem
