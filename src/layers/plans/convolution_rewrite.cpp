#include "layers/plans/convolution_rewrite.h"

#include "device/arena.h"

namespace tandem {
namespace {

class RewrittenPlan final : public ConvolutionPlan {
 public:
  RewrittenPlan(CudaContext& context, ConvolutionRewritePtr rewrite, ConvolutionPlanPtr plan)
      : context_(&context), rewrite_(std::move(rewrite)), plan_(std::move(plan)) {
    const ConvolutionProblem& problem = rewrite_->problem();
    const bool weight_gradient = problem.operation == ConvolutionOperation::weight_gradient;
    if (rewrite_->copies_input()) weight_at_ = Arena::align(problem.first_bytes());
    plan_at_ = weight_at_ +
               Arena::align(weight_gradient ? problem.result_bytes() : problem.second_bytes());
  }

  std::string name() const override { return rewrite_->name() + " " + plan_->name(); }
  std::size_t scratch() const override { return plan_at_ + plan_->scratch(); }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    if (rewrite_->copies_input()) {
      rewrite_->copy_input(*context_, first, scratch);
      first = scratch;
    }
    std::byte* weight = scratch + weight_at_;
    if (rewrite_->problem().operation == ConvolutionOperation::weight_gradient) {
      plan_->run(first, second, weight, scratch + plan_at_);
      rewrite_->restore_weight_gradient(*context_, weight, result);
    } else {
      rewrite_->copy_weight(*context_, second, weight);
      plan_->run(first, weight, result, scratch + plan_at_);
    }
  }

 private:
  CudaContext* context_;
  ConvolutionRewritePtr rewrite_;
  ConvolutionPlanPtr plan_;
  std::size_t weight_at_ = 0;
  std::size_t plan_at_ = 0;
};

}  // namespace

std::vector<ConvolutionRewritePtr> convolution_rewrites(const ConvolutionProblem& problem) {
  std::vector<ConvolutionRewritePtr> rewrites;
  const auto add = [&](ConvolutionRewritePtr rewrite) {
    if (rewrite != nullptr) rewrites.push_back(std::move(rewrite));
  };
  const Window& window = problem.window;
  if (window.stride > 1 && window.stride < window.kernel) {
    add(pixel_fold_rewrite(problem, window.stride));
  }
  if (window.kernel > 1) add(pixel_fold_rewrite(problem, window.kernel));
  add(toeplitz_rewrite(problem));
  return rewrites;
}

ConvolutionPlanPtr rewritten_plan(CudaContext& context, ConvolutionRewritePtr rewrite,
                                  ConvolutionPlanPtr plan) {
  return std::make_shared<RewrittenPlan>(context, std::move(rewrite), std::move(plan));
}

}  // namespace tandem
