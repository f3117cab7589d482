#include "layers/plans/summed_plan.h"

#include "device/arena.h"
#include "layers/add.h"

namespace tandem {
namespace {

class SummedPlan final : public ConvolutionPlan {
 public:
  SummedPlan(CudaContext& context, const ConvolutionProblem& problem, ConvolutionPlanPtr plain)
      : context_(&context),
        shape_{problem.pixels(), problem.channels},
        dtype_(problem.dtype()),
        plain_(std::move(plain)),
        plain_at_(Arena::align(problem.result_bytes())) {}

  std::string name() const override { return std::string(summed_prefix) + plain_->name(); }
  std::size_t scratch() const override { return plain_at_ + plain_->scratch(); }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    plain_->run(first, second, scratch, scratch + plain_at_);
    const Tensor sum(result, shape_, dtype_);
    add_forward(*context_, Tensor(scratch, shape_, dtype_), sum, sum);
  }

 private:
  CudaContext* context_;
  Shape shape_;
  DType dtype_;
  ConvolutionPlanPtr plain_;
  std::size_t plain_at_;
};

}  // namespace

ConvolutionPlanPtr summed_plan(CudaContext& context, const ConvolutionProblem& problem,
                               ConvolutionPlanPtr plain) {
  return std::make_shared<SummedPlan>(context, problem, std::move(plain));
}

ConvolutionProblem without_sum(ConvolutionProblem problem) {
  problem.adds = false;
  return problem;
}

}  // namespace tandem
