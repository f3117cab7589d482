#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_join_cuda.cuh"
#include "layers/normalisation/resident_sums_cuda.cuh"

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
  return {from.weight[channel], from.bias[channel], to_float(x[channel]),
          load_running(from, channel)};
}

/// No __restrict__: y may be x. `other` has `times` the channels of x.
template <typename T, int V, Activation A, SecondInput S>
__global__ void __launch_bounds__(resident_threads, 1)
    forward_kernel(ResidentTiles tiles, const T* x, StatisticsFinish finish, const T* other,
                   int times, T* y) {
  constexpr int kept = resident_packs<T, V>;
  constexpr bool residual = S == SecondInput::residual;
  constexpr bool joined = S == SecondInput::joined;
  __shared__ __align__(16) float scales[resident_columns];
  __shared__ __align__(16) float shifts[resident_columns];
  x = in_group(tiles, x);
  y = in_group(tiles, y, joined ? 2 : 1);
  if constexpr (S != SecondInput::none) other = in_group(tiles, other, times);
  const ResidentPlace place = resident_place(tiles);
  const SummedChannel channel = summed_channel<V>(tiles);
  OwnedChannel owned;
  if (channel.owned) owned = load_owned(finish.to, x, channel.number);

  WaitingPack<T, V> in[kept];
  WaitingPack<T, V> also[S != SecondInput::none ? kept : 1];
  WaitingPack<T, V> pivot{};
  if (place.inside) pivot = WaitingPack<T, V>::load(x + place.pack * V);
  for_kept<kept, V>(tiles, place, [&](int k, int offset) {
    in[k] = WaitingPack<T, V>::load(x + offset);
    if constexpr (residual) also[k] = WaitingPack<T, V>::load(other + offset);
    if constexpr (joined) {
      also[k] = WaitingPack<T, V>::load(other + other_offset<V>(place, offset, times));
    }
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
      out[i] = activate<A>(residual ? normal + also[residual ? k : 0].get(i) : normal);
    }
    const auto result = WaitingPack<T, V>::of(out);
    if constexpr (joined) {
      JoinedPack<T, V>::of(also[k], result).store(y + 2 * offset);
    } else {
      result.store(y + offset);
    }
  });
  // One of a tile's blocks stores what all of them found.
  if (channel.owned && blockIdx.y == 0) {
    store_table(table_of_group(finish.to.table), channel.number, table);
    store_running(finish, channel.number, owned.running, moments);
  }
  leave_cluster(tiles);
}

template <typename T, int V, Activation A>
auto* kernel_for(SecondInput use) {
  auto* kernel = &forward_kernel<T, V, A, SecondInput::none>;
  if (use == SecondInput::residual) kernel = &forward_kernel<T, V, A, SecondInput::residual>;
  if constexpr (fuses_with_join(A)) {
    if (use == SecondInput::joined) kernel = &forward_kernel<T, V, A, SecondInput::joined>;
  } else {
    TANDEM_CHECK(use != SecondInput::joined, "a join behind {}", name_of(A));
  }
  return kernel;
}

}  // namespace

void batch_norm_resident_forward(CudaContext& context, const ResidentTiles& tiles,
                                 const BatchNormResidentForward& operands,
                                 const BatchNormStatistics& statistics) {
  with_resident_packs(operands.x.dtype(), tiles.pack, [&](auto element, auto pack) {
    with_activation(operands.activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      auto* kernel = kernel_for<T, V, decltype(chosen)::value>(operands.use);
      launch_resident(context, tiles, kernel, tiles, static_cast<const T*>(operands.x.raw()),
                      finish_of(statistics), static_cast<const T*>(operands.second.raw()),
                      times_the_channels(operands.second, operands.x),
                      static_cast<T*>(operands.y.raw()));
    });
  });
}

}  // namespace tandem
