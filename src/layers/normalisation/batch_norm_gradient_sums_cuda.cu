#include "device/cuda_check.h"
#include "layers/normalisation/batch_norm_gradient_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace {

__global__ void finish_kernel(int channels, GradientFinish finish, const double* rank_sums) {
  const int channel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (channel >= channels) return;
  gradient_sums::finish_input(finish, channel, rank_sums[channel], rank_sums[channels + channel]);
}

template <typename T, int V, Activation A>
__global__ void __launch_bounds__(sum_threads, 1)
    sum_kernel(RowTiles tiles, const T* __restrict__ x, const T* __restrict__ output_gradient,
               GradientFinish finish, ChannelSums sums, double* rank_sums) {
  constexpr int unroll = 4;
  __shared__ __align__(16) float shared[2 * V * sum_threads];
  x = in_group(tiles, x);
  output_gradient = in_group(tiles, output_gradient);
  const TilePlace place = tile_place(tiles);
  float first[V] = {};
  float second[V] = {};
  if (place.inside) {
    GradientAdder<V, A> add(tiles, place.pack, table_of_group(finish.to.table), first, second);
    const int begin = place.pack * V;
    WaitingPack<T, V> in[unroll];
    WaitingPack<T, V> gradient[unroll];
    for_rows<unroll, true>(
        tiles, place.lane,
        [&](int u, std::int64_t offset) {
          in[u] = WaitingPack<T, V>::load(x + begin + offset);
          gradient[u] = WaitingPack<T, V>::load(output_gradient + begin + offset);
        },
        [&](int u, std::int64_t) {
#pragma unroll
          for (int i = 0; i < V; ++i) add(i, in[u].get(i), gradient[u].get(i));
        });
    for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
      add(i, to_float(x[at]), to_float(output_gradient[at]));
    });
  }
  finish_gradient_sums<V>(tiles, place, first, second, shared, finish, sums, rank_sums);
}

/// No __restrict__ for the gradients: they may be the same. The activation's derivative is found
/// from y, or, FromPasses, from `passes`, an eighth as many bytes as elements.
template <typename T, int V, Activation A, bool FromPasses>
__global__ void __launch_bounds__(sum_threads, 1)
    sum_residual_kernel(RowTiles tiles, const T* __restrict__ x, const T* __restrict__ y,
                        const std::uint8_t* __restrict__ passes, const T* output_gradient,
                        T* residual_gradient, GradientFinish finish, ChannelSums sums,
                        double* rank_sums) {
  constexpr int unroll = 4;
  constexpr bool masked = A != Activation::none && !FromPasses;
  __shared__ __align__(16) float shared[2 * V * sum_threads];
  x = in_group(tiles, x);
  if constexpr (masked) y = in_group(tiles, y);
  if constexpr (FromPasses) passes = in_group_of_packs(tiles, passes);
  output_gradient = in_group(tiles, output_gradient);
  residual_gradient = in_group(tiles, residual_gradient);
  const TilePlace place = tile_place(tiles);
  float first[V] = {};
  float second[V] = {};
  if (place.inside) {
    float mean[V];
    load_channels<V>(tiles, place.pack, table_of_group(finish.to.table).mean, mean);
    const auto add = [&](int i, float value, float dz) {
      first[i] += dz;
      second[i] = fmaf(dz, value - mean[i], second[i]);
    };
    const int begin = place.pack * V;
    WaitingPack<T, V> in[unroll];
    WaitingPack<T, V> result[masked ? unroll : 1];
    unsigned pass[FromPasses ? unroll : 1];
    WaitingPack<T, V> gradient[unroll];
    for_rows<unroll, true>(
        tiles, place.lane,
        [&](int u, std::int64_t offset) {
          in[u] = WaitingPack<T, V>::load(x + begin + offset);
          if constexpr (masked) result[u] = WaitingPack<T, V>::load(y + begin + offset);
          if constexpr (FromPasses) pass[u] = passes[(begin + offset) / V];
          gradient[u] = WaitingPack<T, V>::load(output_gradient + begin + offset);
        },
        [&](int u, std::int64_t offset) {
          float dz[V];
#pragma unroll
          for (int i = 0; i < V; ++i) {
            dz[i] = gradient[u].get(i);
            if constexpr (masked) {
              dz[i] = activation_gradient<A>(result[masked ? u : 0].get(i), dz[i]);
            }
            if constexpr (FromPasses) {
              dz[i] = (pass[FromPasses ? u : 0] >> i & 1U) != 0 ? dz[i] : 0.0F;
            }
            add(i, in[u].get(i), dz[i]);
          }
          WaitingPack<T, V>::of(dz).store(residual_gradient + begin + offset);
        });
    for_tail<V>(tiles, place, [&](int i, std::int64_t at) {
      float dz = to_float(output_gradient[at]);
      if constexpr (masked) dz = activation_gradient<A>(to_float(y[at]), dz);
      add(i, to_float(x[at]), dz);
      residual_gradient[at] = from_float<T>(dz);
    });
  }
  finish_gradient_sums<V>(tiles, place, first, second, shared, finish, sums, rank_sums);
}

}  // namespace

void batch_norm_sum_gradients(CudaContext& context, const BatchNormShape& shape, const Tensor& x,
                              const Tensor& output_gradient, Activation activation,
                              const BatchNormGradients& gradients, const BatchNormWork& work) {
  const bool aligned = packs_aligned(x.raw(), output_gradient.raw());
  with_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      const RowTiles tiles = gradient_tiles(context, shape, V);
      sum_kernel<T, V, decltype(chosen)::value>
          <<<grid_of(tiles), sum_threads, 0, context.stream()>>>(
              tiles, static_cast<const T*>(x.raw()), static_cast<const T*>(output_gradient.raw()),
              finish_of(gradients), channel_sums_of(work), work.rank_sums);
      TANDEM_CUDA_CHECK_LAUNCH();
    });
  });
}

void batch_norm_sum_residual_gradients(CudaContext& context, const BatchNormShape& shape,
                                       const Tensor& x, const Tensor& y, const std::uint8_t* passes,
                                       const Tensor& output_gradient, Activation activation,
                                       const Tensor& residual_gradient,
                                       const BatchNormGradients& gradients,
                                       const BatchNormWork& work) {
  const bool aligned =
      packs_aligned(x.raw(), y.raw(), output_gradient.raw(), residual_gradient.raw());
  with_packs(shape, x.dtype(), aligned, [&](auto element, auto pack) {
    with_activation(activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      constexpr Activation A = decltype(chosen)::value;
      if constexpr (derivative_needs_input(A)) {
        throw Error("the derivative of an activation of a sum, from the sum's result");
      } else {
        const RowTiles tiles = gradient_tiles(context, shape, V);
        auto* kernel = &sum_residual_kernel<T, V, A, false>;
        if constexpr (has_passes<V, A>) {
          if (passes != nullptr) kernel = &sum_residual_kernel<T, V, A, true>;
        } else {
          TANDEM_CHECK(passes == nullptr, "where gradients pass, of no packs");
        }
        kernel<<<grid_of(tiles), sum_threads, 0, context.stream()>>>(
            tiles, static_cast<const T*>(x.raw()), static_cast<const T*>(y.raw()), passes,
            static_cast<const T*>(output_gradient.raw()), static_cast<T*>(residual_gradient.raw()),
            finish_of(gradients), channel_sums_of(work), work.rank_sums);
        TANDEM_CUDA_CHECK_LAUNCH();
      }
    });
  });
}

void batch_norm_finish_gradients(CudaContext& context, std::int64_t channels,
                                 const BatchNormGradients& gradients, const double* rank_sums) {
  constexpr int threads = 128;
  finish_kernel<<<blocks_for(channels, threads), threads, 0, context.stream()>>>(
      static_cast<int>(channels), finish_of(gradients), rank_sums);
  TANDEM_CUDA_CHECK_LAUNCH();
}

}  // namespace tandem
