#pragma once

#include "device/cuda_context.h"
#include "layers/plans/result_samples.h"
#include "layers/tuning/plan_choice.h"
#include "tensor/dtype.h"

namespace tandem {

// What the check of a kernel's result does on the device. Included by sources only; device memory
// everywhere; all is enqueued on the context's stream.

/// Random numbers between -scale and scale (layers/tuning/trial_operand.h).
void fill_operand(CudaContext& context, DType dtype, std::int64_t count, unsigned seed, float scale,
                  void* data);

/// What a kernel must not read, or leave: every float of such bytes is NaN.
void fill_with_nan(CudaContext& context, std::size_t bytes, void* data);

/// Looks at `count` elements of a result. `reference`: the definition at the samples; one that is
/// not finite counts as an element that is not.
void enqueue_findings(CudaContext& context, DType dtype, std::int64_t count, const void* result,
                      const ResultSamples& samples, const float* reference,
                      ResultFindings* findings);

}  // namespace tandem
