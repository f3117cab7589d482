#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/plans/convolution_problem.h"

namespace tandem {

class CudaContext;

/// One way to compute a convolution on a CUDA device. Immutable: layers of equal shapes share one.
/// Included by sources only.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  /// Under which restore_plan() makes it again.
  virtual std::string name() const = 0;
  virtual std::size_t scratch() const = 0;
  /// Enqueues it; operands as in ConvolutionProblem, scratch 256-byte aligned.
  virtual void run(const void* first, const void* second, void* result,
                   std::byte* scratch) const = 0;
};

using ConvolutionPlanPtr = std::shared_ptr<const ConvolutionPlan>;

/// How cuDNN is handed the operands. It is slow, or knows no plan, where rows of channels are not
/// whole 16-byte words: then copies with channels of zeros beside them may pay.
struct OperandLayout {
  std::int64_t channels = 0;      ///< of x, padded
  std::int64_t out_channels = 0;  ///< of y, padded
  DType result = DType::f32;      ///< what cuDNN writes; converted after it where that differs

  bool operator==(const OperandLayout&) const = default;
};

/// The layouts worth trying, the plainest first.
std::vector<OperandLayout> operand_layouts(const ConvolutionProblem& problem);

/// Plans for the problem: of a depthwise one Tandem's own (layers/plans/depthwise_plan.h) first,
/// then those that the libraries' heuristics favour first: at most `most_each` of cuDNN's for each
/// layout, Tandem's own of a stem (layers/plans/stem_plan.h), and at most as many of cuBLASLt's for
/// matrix products; then the same for each rewrite of the problem
/// (layers/plans/convolution_rewrite.h); for a problem that adds, after those that do it
/// themselves, those of the problem that does not with a sum after them; where there are none,
/// Tandem's own kernel. Never empty.
std::vector<ConvolutionPlanPtr> candidate_plans(CudaContext& context,
                                                const ConvolutionProblem& problem,
                                                std::size_t most_each);
/// The plan of that name, or null where there is none any more.
ConvolutionPlanPtr restore_plan(CudaContext& context, const ConvolutionProblem& problem,
                                std::string_view name);

}  // namespace tandem
