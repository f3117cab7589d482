#pragma once

#include <cstddef>

#include "device/cpu_context.h"
#include "layers/activation.h"
#include "layers/normalisation/batch_norm.h"

namespace tandem {

// Batch normalisation of NHWC rows on the CPU, fused with what usually follows it: a residual sum
// and an activation. Memory-bound, so passes are few: statistics and result read x once each,
// backward reads x, y and the gradient twice. On AVX2 these take from a third of the time
// of oneDNN's NHWC batch normalisation to a little more than it (docs/benchmarks.md), and fuse the
// residual sum, which it does not.
//
// Sums are taken in blocks of rows that do not depend on the number of threads and are combined in
// order, so results are the same bits for any thread count.

/// Bytes of scratch for batch_norm_forward, batch_norm_statistics and batch_norm_backward.
std::size_t batch_norm_scratch(const BatchNormShape& shape);

/// What a training step's forward pass works on; y = activation(batch_norm(x) (+ residual)).
struct BatchNormForward {
  const float* x = nullptr;
  const float* residual = nullptr;  ///< null: none
  Activation activation = Activation::none;
  float* y = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* running_mean = nullptr;  ///< the first group's
  float* running_variance = nullptr;
  std::int64_t running_apart = 0;      ///< ForwardArgs::buffers_apart
  float* mean = nullptr;               ///< for backward (groups, C)
  float* inverse_deviation = nullptr;  ///< for backward (groups, C)
  RankSum* ranks = nullptr;            ///< not null: one group
  bool fixed_statistics = false;       ///< normalise with the running statistics; one group
};
void batch_norm_forward(CpuContext& context, const BatchNormShape& shape,
                        const BatchNormOptions& options, const BatchNormForward& args,
                        std::byte* scratch);

// Parts of it, of one group.

/// Mean and 1 / sqrt(var + epsilon) of each channel of x; updates the running statistics. Over the
/// rows of all ranks, as many on each, where `ranks` is not null.
void batch_norm_statistics(CpuContext& context, const BatchNormShape& shape,
                           const BatchNormOptions& options, const float* x, float* mean,
                           float* inverse_deviation, float* running_mean, float* running_variance,
                           RankSum* ranks, std::byte* scratch);

/// y = activation(x * scale + shift (+ residual)). `residual` may be null; y may be x.
void batch_norm_apply(CpuContext& context, const BatchNormShape& shape, const float* x,
                      const float* scale, const float* shift, const float* residual,
                      Activation activation, float* y);

struct BatchNormBackward {
  const float* x = nullptr;  ///< what was normalised
  /// What was fused; one whose derivative needs its input goes without a residual sum.
  Activation activation = Activation::none;
  const float* y = nullptr;                  ///< the fused result where its derivative needs it
  const float* mean = nullptr;               ///< of the forward pass (groups, C)
  const float* inverse_deviation = nullptr;  ///< of the forward pass (groups, C)
  const float* weight = nullptr;
  const float* bias = nullptr;         ///< where the activation's derivative needs its input
  float* output_gradient = nullptr;    ///< may be overwritten
  float* residual_gradient = nullptr;  ///< null without a residual sum or where not wanted
  float* input_gradient = nullptr;     ///< may be output_gradient
  float* weight_gradient = nullptr;    ///< summed over the groups, as bias_gradient
  float* bias_gradient = nullptr;
  RankSum* ranks = nullptr;       ///< as in the forward pass
  bool fixed_statistics = false;  ///< mean and deviation did not come from x
};
void batch_norm_backward(CpuContext& context, const BatchNormShape& shape,
                         const BatchNormBackward& args, std::byte* scratch);

/// scale = weight * inverse_deviation, shift = bias - mean * scale.
void batch_norm_fold(std::int64_t channels, const float* weight, const float* bias,
                     const float* mean, const float* inverse_deviation, float* scale, float* shift);
/// 1 / sqrt(running_variance + epsilon).
void batch_norm_inverse_deviation(std::int64_t channels, const float* running_variance,
                                  float epsilon, float* inverse_deviation);

std::unique_ptr<LayerKernel> make_batch_norm_kernel(CpuContext& context,
                                                    const BatchNormOptions& options,
                                                    const KernelRequest& request);

}  // namespace tandem
