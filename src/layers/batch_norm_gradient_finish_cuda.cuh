#pragma once

// What becomes of the sums over the gradients.

#include "layers/batch_norm_finish_cuda.cuh"
#include "layers/batch_norm_plan_cuda.cuh"

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
