#pragma once

#include <optional>

#include "layers/convolution_plan.h"
#include "layers/pointwise_statistics_cuda.h"

namespace tandem {

/// For a normalised 1x1 convolution: how one kernel computes it and sums its statistics. Nothing
/// where there is no such kernel, or `plain`, the convolution's plan, and batch_norm_statistics()
/// after it are faster. `problem` is the forward one, `shape` that of its normalised result. Chosen
/// and kept as plans are (layers/plan_tuner.h). Included by sources only.
std::optional<PointwiseTiles> choose_pointwise_statistics(CudaContext& context,
                                                          const ConvolutionProblem& problem,
                                                          const BatchNormShape& shape,
                                                          const ConvolutionPlanPtr& plain);

}  // namespace tandem
