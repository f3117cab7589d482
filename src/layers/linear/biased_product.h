#pragma once

#include <memory>

#include "layers/plans/convolution_plan.h"
#include "layers/plans/cublas_matmul.h"

namespace tandem {

/// A linear layer's y = x W^T + b in one kernel of cuBLASLt: the fastest of its algorithms whose
/// result is right. Null where there is none, or `plain`, the product, and the bias after it are
/// faster. `problem` is the layer's forward convolution of images of one pixel. Chosen and kept as
/// plans are (layers/tuning/plan_tuner.h). Included by sources only.
std::unique_ptr<CublasMatmul> choose_biased_product(CudaContext& context,
                                                    const ConvolutionProblem& problem,
                                                    const ConvolutionPlanPtr& plain);

}  // namespace tandem
