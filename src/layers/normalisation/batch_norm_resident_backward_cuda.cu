#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_join_cuda.cuh"
#include "layers/normalisation/resident_sums_cuda.cuh"

namespace tandem {
namespace {

/// Channels' coefficients of the second pass over a block's elements.
struct Coefficients {
  alignas(16) float scale[resident_columns];
  alignas(16) float shift[resident_columns];
  alignas(16) float slope[resident_columns];
  alignas(16) float offset[resident_columns];
};

/// The parameters' gradients, which the tile's first block stores, and the coefficients of dx.
__device__ __forceinline__ void finish_channel(const GradientFinish& finish, int channels,
                                               const SummedChannel& channel,
                                               const ChannelTable& table,
                                               const ChannelTotals& totals, Coefficients& to) {
  const auto deviation = static_cast<double>(table.inverse_deviation);
  if (blockIdx.y == 0) {
    store_parameter_gradients(finish.to, channels, channel.number, totals.first,
                              totals.second * deviation);
  }
  const InputCoefficients input = input_coefficients(static_cast<double>(table.mean), deviation,
                                                     static_cast<double>(table.scale), totals.first,
                                                     totals.second, finish.per_row);
  to.scale[channel.at] = table.scale;
  to.shift[channel.at] = table.shift;
  to.slope[channel.at] = input.slope;
  to.offset[channel.at] = input.offset;
}

/// The parameters' gradients of several groups are added up by the last of a tile's groups. The
/// first warp of each group's first block counts as soon as its share is stored, and looks at the
/// number at the end, so that nothing waits for the answer.
class GroupCount {
 public:
  __device__ __forceinline__ GroupCount(const ResidentTiles& tiles, unsigned* counters)
      : counts_(tiles.groups > 1 && blockIdx.y == 0 && threadIdx.x < 32),
        counter_(counters + blockIdx.x) {}

  __device__ __forceinline__ void share_is_stored() {
    if (!counts_) return;
    __threadfence();
    __syncwarp();
    if (threadIdx.x == 0) before_ = atomicAdd(counter_, 1U);
  }

  /// Whether this warp is the last; what the others stored is then visible to it.
  __device__ __forceinline__ bool is_last(const ResidentTiles& tiles) {
    if (!counts_) return false;
    before_ = __shfl_sync(resident_sums::all_lanes, before_, 0);
    if (before_ != static_cast<unsigned>(tiles.groups) - 1) return false;
    if (threadIdx.x == 0) *counter_ = 0;
    __threadfence();
    return true;
  }

 private:
  bool counts_;
  unsigned* counter_;
  unsigned before_ = 0;
};

/// What a thread keeps of the operands between the sums and the input's gradient. Behind a residual
/// the derivative of the activation is found from the result y, else from the normalised x.
template <typename T, int V, Activation A, SecondInput S>
struct Held {
  static constexpr int kept = resident_packs<T, V>;
  static constexpr bool residual = S == SecondInput::residual;
  static constexpr bool joined = S == SecondInput::joined;
  static constexpr bool from_result = residual && A != Activation::none;
  static constexpr bool from_input = !residual && A != Activation::none;

  WaitingPack<T, V> in[kept];
  WaitingPack<T, V> gradient[kept];
  WaitingPack<T, V> result[from_result ? kept : 1];
  WaitingPack<T, V> other[joined ? kept : 1];

  __device__ __forceinline__ void load(const ResidentTiles& tiles, const ResidentPlace& place,
                                       const T* x, const T* y, const T* output_gradient) {
    for_kept<kept, V>(tiles, place, [&](int k, int offset) {
      in[k] = WaitingPack<T, V>::load(x + offset);
      if constexpr (joined) {
        const auto both = JoinedPack<T, V>::load(output_gradient + 2 * offset);
        gradient[k] = both.result();
        other[k] = both.other();
      } else {
        gradient[k] = WaitingPack<T, V>::load(output_gradient + offset);
      }
      if constexpr (from_result) result[k] = WaitingPack<T, V>::load(y + offset);
    });
  }

  /// Adds up dz and dz (x - mean) of the thread's rows; dz is kept where it is the residual's
  /// gradient.
  __device__ __forceinline__ void sum(const ResidentTiles& tiles, const ResidentPlace& place,
                                      const BatchNormTable& tables, float (&first)[V],
                                      float (&second)[V]) {
    float mean[V];
    float scale[V];
    float shift[V];
    load_floats<V>(tables.mean + place.pack * V, mean);
    if constexpr (from_input) {
      load_floats<V>(tables.scale + place.pack * V, scale);
      load_floats<V>(tables.shift + place.pack * V, shift);
    }
    for_kept<kept, V>(tiles, place, [&](int k, int) {
      float dz[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float value = in[k].get(i);
        dz[i] = gradient[k].get(i);
        if constexpr (from_result) dz[i] = activation_gradient<A>(result[k].get(i), dz[i]);
        if constexpr (from_input) {
          dz[i] = activation_gradient_at<A>(fmaf(value, scale[i], shift[i]), dz[i]);
        }
        first[i] += dz[i];
        second[i] = fmaf(dz[i], value - mean[i], second[i]);
      }
      if constexpr (residual) gradient[k] = WaitingPack<T, V>::of(dz);
    });
  }

  /// The residual's gradient, or the other part of a joined result's, in `times` the channels.
  __device__ __forceinline__ void store_second(const ResidentTiles& tiles,
                                               const ResidentPlace& place, T* second_gradient,
                                               int times) const {
    for_kept<kept, V>(tiles, place, [&](int k, int offset) {
      if constexpr (joined) {
        T* to = second_gradient + other_offset<V>(place, offset, times);
        other[k].store(to);
        // The channels that were left out.
        for (int part = 1; part < times; ++part) {
          WaitingPack<T, V>{}.store(to + part * tiles.channels);
        }
      } else {
        gradient[k].store(second_gradient + offset);
      }
    });
  }

  __device__ __forceinline__ void store_input_gradient(const ResidentTiles& tiles,
                                                       const ResidentPlace& place,
                                                       const Coefficients& coefficients,
                                                       T* input_gradient) const {
    float scale[V];
    float shift[V];
    float slope[V];
    float constant[V];
    load_floats<V>(coefficients.scale + place.column * V, scale);
    load_floats<V>(coefficients.shift + place.column * V, shift);
    load_floats<V>(coefficients.slope + place.column * V, slope);
    load_floats<V>(coefficients.offset + place.column * V, constant);
    for_kept<kept, V>(tiles, place, [&](int k, int offset) {
      float dx[V];
#pragma unroll
      for (int i = 0; i < V; ++i) {
        const float value = in[k].get(i);
        float dz = gradient[k].get(i);
        if constexpr (from_input) {
          dz = activation_gradient_at<A>(fmaf(value, scale[i], shift[i]), dz);
        }
        dx[i] = fmaf(scale[i], dz, fmaf(slope[i], value, constant[i]));
      }
      WaitingPack<T, V>::of(dx).store(input_gradient + offset);
    });
  }
};

/// What belongs to the second input is stored where second_gradient is not null. No __restrict__
/// for the gradients: they may be the same.
template <typename T, int V, Activation A, SecondInput S>
__global__ void __launch_bounds__(resident_threads, 1)
    backward_kernel(ResidentTiles tiles, const T* __restrict__ x, const T* __restrict__ y,
                    const T* output_gradient, T* second_gradient, int times, T* input_gradient,
                    GradientFinish finish, unsigned* counters) {
  using Operands = Held<T, V, A, S>;
  __shared__ Coefficients coefficients;
  const BatchNormTable tables = table_of_group(finish.to.table);
  x = in_group(tiles, x);
  output_gradient = in_group(tiles, output_gradient, Operands::joined ? 2 : 1);
  if constexpr (Operands::from_result) y = in_group(tiles, y);
  const ResidentPlace place = resident_place(tiles);
  const SummedChannel channel = summed_channel<V>(tiles);
  ChannelTable owned{};
  if (channel.owned) owned = load_table(tables, channel.number);

  Operands held;
  held.load(tiles, place, x, y, output_gradient);
  float first[V] = {};
  float second[V] = {};
  if (place.inside) held.sum(tiles, place, tables, first, second);
  const ChannelTotals totals = sum_over_rows<V>(tiles, first, second);
  if (channel.owned) finish_channel(finish, tiles.channels, channel, owned, totals, coefficients);
  __syncthreads();
  sums_are_used(tiles);
  GroupCount count(tiles, counters);
  count.share_is_stored();

  // No earlier, so that no sum waits for a store.
  if (S != SecondInput::none && second_gradient != nullptr) {
    held.store_second(tiles, place, in_group(tiles, second_gradient, times), times);
  }
  if (input_gradient != nullptr) {
    held.store_input_gradient(tiles, place, coefficients, in_group(tiles, input_gradient));
  }
  leave_cluster(tiles);
  if (count.is_last(tiles) && channel.owned) {
    sum_parameter_gradients(finish.to, tiles.groups, tiles.channels, channel.number);
  }
}

template <typename T, int V, Activation A>
auto* kernel_for(SecondInput use) {
  auto* kernel = &backward_kernel<T, V, A, SecondInput::none>;
  // Only activations whose derivative is found from the result are fused behind a sum.
  if constexpr (!derivative_needs_input(A)) {
    if (use == SecondInput::residual) kernel = &backward_kernel<T, V, A, SecondInput::residual>;
  } else {
    TANDEM_CHECK(use != SecondInput::residual,
                 "the derivative of an activation of a sum, from the sum's result");
  }
  if constexpr (fuses_with_join(A)) {
    if (use == SecondInput::joined) kernel = &backward_kernel<T, V, A, SecondInput::joined>;
  } else {
    TANDEM_CHECK(use != SecondInput::joined, "a join behind {}", name_of(A));
  }
  return kernel;
}

}  // namespace

ResidentClusters batch_norm_clusters(const CudaContext& context) {
  // One of the kernels with the most registers.
  return clusters_of(context,
                     &backward_kernel<__nv_bfloat16, 8, Activation::silu, SecondInput::none>);
}

void batch_norm_resident_backward(CudaContext& context, const ResidentTiles& tiles,
                                  const BatchNormResidentBackward& operands,
                                  const BatchNormGradients& gradients, unsigned* counters) {
  with_resident_packs(operands.x.dtype(), tiles.pack, [&](auto element, auto pack) {
    with_activation(operands.activation, [&](auto chosen) {
      using T = decltype(element);
      constexpr int V = decltype(pack)::value;
      auto* kernel = kernel_for<T, V, decltype(chosen)::value>(operands.use);
      launch_resident(context, tiles, kernel, tiles, static_cast<const T*>(operands.x.raw()),
                      static_cast<const T*>(operands.y.raw()),
                      static_cast<const T*>(operands.output_gradient.raw()),
                      static_cast<T*>(operands.second_gradient.raw()),
                      times_the_channels(operands.second_gradient, operands.x),
                      static_cast<T*>(operands.input_gradient.raw()), finish_of(gradients),
                      counters);
    });
  });
}

}  // namespace tandem
