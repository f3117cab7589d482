#pragma once

#include "layers/plans/convolution_plan.h"

namespace tandem {

/// For a problem that adds: the gradient by `plain`, a plan for the problem without the sum, into
/// scratch, then the sum. Takes two passes over the gradient more than a plan that adds itself.
ConvolutionPlanPtr summed_plan(CudaContext& context, const ConvolutionProblem& problem,
                               ConvolutionPlanPtr plain);
/// What stands before the plain plan's name in that of the summed one.
constexpr std::string_view summed_prefix = "summed ";

/// The same problem without the sum.
ConvolutionProblem without_sum(ConvolutionProblem problem);

}  // namespace tandem
