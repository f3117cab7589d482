#pragma once

#include "layers/convolution_plan.h"

namespace tandem {

/// Whether the convolution is a plain matrix product of all pixels' channels with the weight: one
/// tap, no stride, no border, one group. Linear layers are such, of images of one pixel.
bool is_matmul(const ConvolutionProblem& problem);

/// Such a convolution by cuBLASLt, with the algorithm at a place of its heuristics; null where it
/// has not so many.
ConvolutionPlanPtr matmul_plan(CudaContext& context, const ConvolutionProblem& problem,
                               int algorithm);
/// At most so many algorithms are worth trying.
constexpr int most_matmul_algorithms = 8;

}  // namespace tandem
