#pragma once

#include "layers/plans/convolution_plan.h"
#include "layers/plans/result_samples.h"

namespace tandem {

/// Any convolution at all, straight from its definition: right, and slow. For what cuDNN has no
/// plan for.
ConvolutionPlanPtr direct_convolution_plan(CudaContext& context, const ConvolutionProblem& problem);

/// Enqueues the same for samples of the result, in f32: samples.count `values`. `result` is what a
/// problem that adds adds to, and is read alone. `bias`: out_channels numbers that are added to
/// each pixel of a forward problem's result; null for none.
void enqueue_direct_samples(CudaContext& context, const ConvolutionProblem& problem,
                            const ResultSamples& samples, const void* first, const void* second,
                            const void* result, const float* bias, float* values);

}  // namespace tandem
