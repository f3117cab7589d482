#pragma once

#include <memory>
#include <string>
#include <vector>

#include "layers/plans/convolution_plan.h"

namespace tandem {

/// A convolution computed as another one, of copies of its operands: for shapes that the libraries
/// are slow at. y and its gradient stay what they are; weights change place, and zeros stand beside
/// them, so that what is not finite in x or dy may spread to neighbours that the convolution itself
/// keeps apart.
class ConvolutionRewrite {
 public:
  explicit ConvolutionRewrite(const ConvolutionProblem& problem) : problem_(problem) {}
  virtual ~ConvolutionRewrite() = default;

  virtual std::string name() const = 0;
  /// What is computed instead; a forward convolution remains one.
  const ConvolutionProblem& problem() const { return problem_; }

  /// Whether x is copied too; a data gradient is then not rewritten.
  virtual bool copies_input() const = 0;
  // All are enqueued. Operands are of problem().dtype(), weight gradients f32.
  virtual void copy_input(CudaContext& context, const void* x, void* copy) const = 0;
  virtual void copy_weight(CudaContext& context, const void* weight, void* copy) const = 0;
  virtual void restore_weight_gradient(CudaContext& context, const void* copy,
                                       void* gradient) const = 0;

 private:
  ConvolutionProblem problem_;
};

using ConvolutionRewritePtr = std::shared_ptr<const ConvolutionRewrite>;

/// The rewrites worth trying; often none.
std::vector<ConvolutionRewritePtr> convolution_rewrites(const ConvolutionProblem& problem);

/// The rewrite around a plan for its problem.
ConvolutionPlanPtr rewritten_plan(CudaContext& context, ConvolutionRewritePtr rewrite,
                                  ConvolutionPlanPtr plan);

/// Pixels folded into channels (layers/plans/pixel_fold.h), for layers of few channels; null where
/// that is not for the problem.
ConvolutionRewritePtr pixel_fold_rewrite(const ConvolutionProblem& problem, std::int64_t block);

/// The filter written out as a matrix (layers/plans/toeplitz_filter.h), for images of few pixels;
/// null where that is not for the problem.
ConvolutionRewritePtr toeplitz_rewrite(const ConvolutionProblem& problem);

}  // namespace tandem
