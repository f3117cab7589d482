#pragma once

#include "layers/convolution_plan.h"

namespace tandem {

/// The fastest plan for the problem: the one that layers of equal shapes use already, else the one
/// that was fastest in an earlier run on this device, else the fastest of all candidates as
/// measured now (a tenth of a second or so) in memory that is freed again. The choice is kept for
/// later runs (device/kernel_choices.h). With TANDEM_TUNE=off nothing is measured or kept, and
/// cuDNN's own first choice is taken.
ConvolutionPlanPtr choose_plan(CudaContext& context, const ConvolutionProblem& problem);

}  // namespace tandem
