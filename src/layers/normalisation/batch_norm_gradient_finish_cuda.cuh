#pragma once

// The sums over the gradients behind an activation whose derivative is found from the normalised x,
// and what becomes of them.

#include "layers/normalisation/batch_norm_finish_cuda.cuh"
#include "layers/normalisation/batch_norm_plan_cuda.cuh"

namespace tandem {
namespace gradient_sums {

__device__ __forceinline__ void finish_input(const GradientFinish& finish, int channel, double sum,
                                             double product) {
  const BatchNormGradients& to = finish.to;
  const BatchNormTable table = table_of_group(to.table);
  const InputCoefficients input =
      input_coefficients(static_cast<double>(table.mean[channel]),
                         static_cast<double>(table.inverse_deviation[channel]),
                         static_cast<double>(table.scale[channel]), sum, product, finish.per_row);
  const int at = group_place(to.table) + channel;
  to.slope[at] = input.slope;
  to.offset[at] = input.offset;
}

/// The sums are this rank's: parameters' gradients are summed over ranks later.
__device__ __forceinline__ void finish_channel(const GradientFinish& finish, int channels,
                                               int channel, double sum, double product,
                                               double* rank_sums) {
  const BatchNormGradients& to = finish.to;
  const float deviation = table_of_group(to.table).inverse_deviation[channel];
  store_parameter_gradients(to, channels, channel, sum, product * static_cast<double>(deviation));
  if (to.fixed_statistics) {
    // They do not move with x, so nothing comes back through them.
    to.slope[channel] = 0.0F;
    to.offset[channel] = 0.0F;
  } else if (rank_sums != nullptr) {
    rank_sums[channel] = sum;
    rank_sums[channels + channel] = product;
  } else {
    finish_input(finish, channel, sum, product);
  }
}

}  // namespace gradient_sums

/// Adds dz, the gradient behind the activation, and dz (x - mean) of a thread's pack of channels to
/// `first` and `second`. Made for packs inside the tensor alone.
template <int V, Activation A>
class GradientAdder {
 public:
  __device__ __forceinline__ GradientAdder(const RowTiles& tiles, int pack,
                                           const BatchNormTable& table, float (&first)[V],
                                           float (&second)[V])
      : first_(first), second_(second) {
    load_channels<V>(tiles, pack, table.mean, mean_);
    if constexpr (A != Activation::none) {
      load_channels<V>(tiles, pack, table.scale, scale_);
      load_channels<V>(tiles, pack, table.shift, shift_);
    }
  }

  /// `value`: of x, in channel i of the pack. Returns dz.
  __device__ __forceinline__ float operator()(int i, float value, float gradient) {
    float dz = gradient;
    if constexpr (A != Activation::none) {
      dz = activation_gradient_at<A>(fmaf(value, scale_[i], shift_[i]), gradient);
    }
    first_[i] += dz;
    second_[i] = fmaf(dz, value - mean_[i], second_[i]);
    return dz;
  }

 private:
  float (&first_)[V];
  float (&second_)[V];
  float mean_[V];
  float scale_[V];
  float shift_[V];
};

/// Ends a kernel of sum_threads threads that sums dz and dz (x - mean): the parameters' gradients
/// and the coefficients of dx, or the sums of this rank.
template <int V>
__device__ __forceinline__ void finish_gradient_sums(const RowTiles& tiles, const TilePlace& place,
                                                     const float (&first)[V],
                                                     const float (&second)[V], float* shared,
                                                     const GradientFinish& finish,
                                                     const ChannelSums& sums, double* rank_sums) {
  const int channels = tiles.channels;
  const bool finished = finish_sums<V>(
      tiles, place, first, second, shared, sums, [&](int channel, double sum, double product) {
        gradient_sums::finish_channel(finish, channels, channel, sum, product, rank_sums);
      });
  if (!finished || tiles.groups == 1) return;
  finish_groups<V>(tiles, sums, [&](int channel) {
    sum_parameter_gradients(finish.to, tiles.groups, channels, channel);
  });
}

}  // namespace tandem
