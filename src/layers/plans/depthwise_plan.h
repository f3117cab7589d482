#pragma once

#include "layers/depthwise/depthwise_conv_cuda.h"
#include "layers/plans/convolution_plan.h"

namespace tandem {

/// Whether each channel is convolved by itself: groups == channels == out_channels.
bool is_depthwise(const ConvolutionProblem& problem);

/// The same for Tandem's kernels. Throws InvariantError for sizes beyond their 32 bits.
cuda_depthwise::Problem depthwise_problem(const CudaContext& context,
                                          const ConvolutionProblem& problem);

/// Tandem's own kernels for a depthwise problem that does not add: over strips where those take it
/// (layers/depthwise/depthwise_strips_cuda.h), else those for any window.
ConvolutionPlanPtr depthwise_plan(CudaContext& context, const ConvolutionProblem& problem);

}  // namespace tandem
