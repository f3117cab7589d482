#pragma once

#include <optional>

#include "layers/normalisation/pointwise_statistics_cuda.h"
#include "layers/plans/convolution_problem.h"

namespace tandem {

/// For a normalised 1x1 convolution: how one kernel computes it and sums its statistics. Nothing
/// where there is no such kernel, where the convolution's chosen plan and batch_norm_statistics()
/// after it are faster, or nothing is timed. `problem` is the forward one, `shape` that of its
/// normalised result. Chosen and kept as plans are (layers/tuning/plan_tuner.h), by the result:
/// whether the statistics are right only tests ask. Included by sources only.
std::optional<PointwiseTiles> choose_pointwise_statistics(CudaContext& context,
                                                          const ConvolutionProblem& problem,
                                                          const BatchNormShape& shape);

}  // namespace tandem
