#pragma once

#include "layers/convolution_plan.h"

namespace tandem {

/// Any convolution at all, straight from its definition: right, and slow. For what cuDNN has no
/// plan for.
ConvolutionPlanPtr direct_convolution_plan(CudaContext& context, const ConvolutionProblem& problem);

}  // namespace tandem
