#pragma once

// What becomes of one channel's sums.

#include "layers/normalisation/batch_norm_kernels_cuda.h"

namespace tandem {

/// BatchNormStatistics as kernels use it.
struct StatisticsFinish {
  BatchNormStatistics to;
  double per_row;   ///< 1 / rows
  double unbiased;  ///< rows / (rows - 1)
};

inline StatisticsFinish finish_of(const BatchNormStatistics& to) {
  return {to, 1.0 / to.rows, to.rows > 1.0 ? to.rows / (to.rows - 1.0) : 1.0};
}

/// Of the elements of a channel.
struct ChannelMoments {
  double mean;
  double variance;
};

/// From the means of x - pivot and of its square.
__device__ __forceinline__ ChannelMoments moments_about(double pivot, double mean,
                                                        double mean_of_squares) {
  const double variance = mean_of_squares - mean * mean;
  // fmax would make a zero of NaN.
  return {pivot + mean, variance < 0.0 ? 0.0 : variance};
}

/// A channel of a BatchNormTable.
struct ChannelTable {
  float mean;
  float inverse_deviation;
  float scale;
  float shift;
};

__device__ __forceinline__ ChannelTable channel_table(float mean, float variance, float epsilon,
                                                      float weight, float bias) {
  const float deviation = 1.0F / sqrtf(variance + epsilon);
  const float scale = weight * deviation;
  return {mean, deviation, scale, bias - mean * scale};
}

/// The place of this block's group in arrays laid out as the table.
__device__ __forceinline__ int group_place(const BatchNormTable& table) {
  return static_cast<int>(blockIdx.z) * table.apart;
}

/// The table of this block's group.
__device__ __forceinline__ BatchNormTable table_of_group(const BatchNormTable& table) {
  const int place = group_place(table);
  return {table.mean + place, table.inverse_deviation + place, table.scale + place,
          table.shift + place, table.apart};
}

__device__ __forceinline__ void store_table(const BatchNormTable& to, int channel,
                                            const ChannelTable& table) {
  to.mean[channel] = table.mean;
  to.inverse_deviation[channel] = table.inverse_deviation;
  to.scale[channel] = table.scale;
  to.shift[channel] = table.shift;
}

__device__ __forceinline__ ChannelTable load_table(const BatchNormTable& from, int channel) {
  return {from.mean[channel], from.inverse_deviation[channel], from.scale[channel],
          from.shift[channel]};
}

__device__ __forceinline__ float blend(float momentum, float old, double batch) {
  const auto share = static_cast<double>(momentum);
  return static_cast<float>((1.0 - share) * static_cast<double>(old) + share * batch);
}

/// A channel's running statistics.
struct RunningStatistics {
  float mean;
  float variance;
};

/// The place of those of this block's group.
__device__ __forceinline__ std::int64_t running_place(const BatchNormStatistics& of, int channel) {
  return blockIdx.z * of.running_apart + channel;
}

__device__ __forceinline__ RunningStatistics load_running(const BatchNormStatistics& from,
                                                          int channel) {
  const std::int64_t place = running_place(from, channel);
  return {from.running_mean[place], from.running_variance[place]};
}

/// What they become with the batch's.
__device__ __forceinline__ void store_running(const StatisticsFinish& finish, int channel,
                                              const RunningStatistics& old,
                                              const ChannelMoments& batch) {
  const BatchNormStatistics& to = finish.to;
  const std::int64_t place = running_place(to, channel);
  to.running_mean[place] = blend(to.momentum, old.mean, batch.mean);
  to.running_variance[place] = blend(to.momentum, old.variance, batch.variance * finish.unbiased);
}

/// What the sums of this block's group make of a channel: means of x - pivot and of its square.
__device__ __forceinline__ void finish_statistics(const StatisticsFinish& finish, int channel,
                                                  double mean, double mean_of_squares,
                                                  double pivot) {
  const ChannelMoments moments = moments_about(pivot, mean, mean_of_squares);
  const BatchNormStatistics& to = finish.to;
  store_table(table_of_group(to.table), channel,
              channel_table(static_cast<float>(moments.mean), static_cast<float>(moments.variance),
                            to.epsilon, to.weight[channel], to.bias[channel]));
  store_running(finish, channel, load_running(to, channel), moments);
}

/// A rank's pivot is its own, so what travels are sums of x and x^2, in double: with floats for x
/// there is no mean so far from zero that their difference would be lost.
__device__ __forceinline__ void store_rank_sums(double* sums, int channels, int channel,
                                                double rows, double first, double second,
                                                double pivot) {
  sums[channel] = first + rows * pivot;
  sums[channels + channel] = second + pivot * (2.0 * first + rows * pivot);
}

/// BatchNormGradients as kernels use it.
struct GradientFinish {
  BatchNormGradients to;
  double per_row;  ///< 1 / rows
};

inline GradientFinish finish_of(const BatchNormGradients& to) { return {to, 1.0 / to.rows}; }

/// The parameters' gradients of this block's group: of several one share.
__device__ __forceinline__ void store_parameter_gradients(const BatchNormGradients& to,
                                                          int channels, int channel, double bias,
                                                          double weight) {
  if (to.group_gradients == nullptr) {
    to.bias_gradient[channel] = static_cast<float>(bias);
    to.weight_gradient[channel] = static_cast<float>(weight);
    return;
  }
  double* share = to.group_gradients + std::int64_t{2} * blockIdx.z * channels + channel;
  share[0] = bias;
  share[channels] = weight;
}

/// The sum of all groups' shares, once they are visible to this thread.
__device__ __forceinline__ void sum_parameter_gradients(const BatchNormGradients& to, int groups,
                                                        int channels, int channel) {
  double bias = 0.0;
  double weight = 0.0;
  const double* share = to.group_gradients + channel;
  for (int group = 0; group < groups; ++group, share += 2 * channels) {
    bias += __ldcg(share);
    weight += __ldcg(share + channels);
  }
  to.bias_gradient[channel] = static_cast<float>(bias);
  to.weight_gradient[channel] = static_cast<float>(weight);
}

/// dx = scale * dz + slope * x + offset.
struct InputCoefficients {
  float slope;
  float offset;
};

/// dx = scale (dz - mean(dz) - (x - mean) deviation^2 mean(dz (x - mean))), from the sums over dz
/// and dz (x - mean).
__device__ __forceinline__ InputCoefficients input_coefficients(double mean, double deviation,
                                                                double scale, double sum,
                                                                double product, double per_row) {
  const double slope = -scale * deviation * deviation * product * per_row;
  const double offset = -scale * sum * per_row - slope * mean;
  return {static_cast<float>(slope), static_cast<float>(offset)};
}

}  // namespace tandem
