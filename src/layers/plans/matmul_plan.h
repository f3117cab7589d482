#pragma once

#include "layers/plans/convolution_plan.h"

namespace tandem {

/// Whether the convolution is one matrix product of all pixels' channels with one tap of the
/// weight, in one group: where the filter has but one, no stride and no border (linear layers are
/// such, of images of one pixel), and where image and output are one pixel and the others see the
/// border alone.
bool is_matmul(const ConvolutionProblem& problem);

/// Such a convolution by cuBLASLt, with the algorithm at a place of its heuristics; null where it
/// has not so many.
ConvolutionPlanPtr matmul_plan(CudaContext& context, const ConvolutionProblem& problem,
                               int algorithm);
/// At most so many algorithms are worth trying.
constexpr int most_matmul_algorithms = 8;

}  // namespace tandem
