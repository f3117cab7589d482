#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

template <typename T, int V>
__global__ void __launch_bounds__(sum_threads, 2)
    statistics_kernel(RowTiles tiles, double rows, const T* __restrict__ x, StatisticsFinish finish,
                      ChannelSums sums, double* rank_sums) {
  constexpr int unroll = 4;
  __shared__ __align__(16) float shared[2 * V * sum_threads];
  x = in_group(tiles, x);
  const TilePlace place = tile_place(tiles);
  float first[V] = {};
  float second[V] = {};
  if (place.inside) {
    float pivot[V];
    if (tiles.fold == 0) {
      const auto row = WaitingPack<T, V>::load(x + place.pack * V);
#pragma unroll
      for (int i = 0; i < V; ++i) pivot[i] = row.get(i);
    } else {
      for_channels<V>(tiles, place.pack,
                      [&](int i, int channel) { pivot[i] = to_float(x[channel]); });
    }
    const auto add = [&](int i, float value) {
      const float d = value - pivot[i];
      first[i] += d;
      second[i] = fmaf(d, d, second[i]);
    };
    const T* from = x + place.pack * V;
    WaitingPack<T, V> in[unroll];
    for_rows<unroll, true>(
        tiles, place.lane,
        [&](int u, std::int64_t offset) { in[u] = WaitingPack<T, V>::load(from + offset); },
        [&](int u, std::int64_t) {
#pragma unroll
          for (int i = 0; i < V; ++i) add(i, in[u].get(i));
        });
    for_tail<V>(tiles, place, [&](int i, std::int64_t at) { add(i, to_float(x[at])); });
  }
  finish_sums<V>(
      tiles, place, first, second, shared, sums, [&](int channel, double sum, double squares) {
        const auto pivot = static_cast<double>(to_float(x[channel]));
        if (rank_sums != nullptr) {
          store_rank_sums(rank_sums, tiles.channels, channel, rows, sum, squares, pivot);
        } else {
          finish_statistics(finish, channel, sum * finish.per_row, squares * finish.per_row, pivot);
        }
      });
}

__global__ void finish_kernel(int channels, StatisticsFinish finish, const double* rank_sums) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= channels) return;
  finish_statistics(finish, channel, rank_sums[channel] * finish.per_row,
                    rank_sums[channels + channel] * finish.per_row, 0.0);
}

__global__ void running_table_kernel(int channels, BatchNormStatistics to) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= channels) return;
  store_table(to.table, channel,
              channel_table(to.running_mean[channel], to.running_variance[channel], to.epsilon,
                            to.weight[channel], to.bias[channel]));
}

constexpr int channel_threads = 128;

}  // namespace

void batch_norm_statistics(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                           const BatchNormStatistics& statistics, const BatchNormWork& work) {
  with_packs(shape, x.dtype(), packs_aligned(x.raw()), [&](auto element, auto pack) {
    using T = decltype(element);
    constexpr int V = decltype(pack)::value;
    const RowTiles tiles = statistics_tiles(context, shape, V);
    statistics_kernel<T, V><<<grid_of(tiles), sum_threads, 0, context.stream()>>>(
        tiles, static_cast<double>(shape.rows), static_cast<const T*>(x.raw()),
        finish_of(statistics), channel_sums_of(work), work.rank_sums);
    TANDEM_CUDA_CHECK_LAUNCH();
  });
}

void batch_norm_finish_statistics(CudaContext& context, std::int64_t channels,
                                  const BatchNormStatistics& statistics, const double* rank_sums) {
  finish_kernel<<<blocks_for(channels, channel_threads), channel_threads, 0, context.stream()>>>(
      static_cast<int>(channels), finish_of(statistics), rank_sums);
  TANDEM_CUDA_CHECK_LAUNCH();
}

void batch_norm_running_table(CudaContext& context, std::int64_t channels,
                              const BatchNormStatistics& statistics) {
  running_table_kernel<<<blocks_for(channels, channel_threads), channel_threads, 0,
                         context.stream()>>>(static_cast<int>(channels), statistics);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
