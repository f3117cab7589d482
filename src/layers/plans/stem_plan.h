#pragma once

#include <vector>

#include "layers/plans/convolution_plan.h"

namespace tandem {

/// Tandem's own kernels for a model's first convolution (layers/plans/stem_cuda.h): one plan for
/// each size of tile; none where they do not take the problem.
std::vector<ConvolutionPlanPtr> stem_plans(CudaContext& context, const ConvolutionProblem& problem);

}  // namespace tandem
