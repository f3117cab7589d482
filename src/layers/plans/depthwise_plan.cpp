#include "layers/plans/depthwise_plan.h"

#include <limits>

#include "base/error.h"
#include "device/cuda_context.h"
#include "layers/depthwise/depthwise_strips_cuda.h"

namespace tandem {
namespace {

/// What kernels index with 32 bits: within an image, and the weights.
int narrow(std::int64_t value) {
  TANDEM_CHECK(value >= 0 && value <= std::numeric_limits<int>::max() / 2,
               "a depthwise convolution's size of {} is too large for its kernels", value);
  return static_cast<int>(value);
}

class DepthwisePlan final : public ConvolutionPlan {
 public:
  DepthwisePlan(CudaContext& context, const ConvolutionProblem& problem)
      : context_(&context),
        operation_(problem.operation),
        problem_(depthwise_problem(context, problem)),
        strips_(cuda_depthwise::has_strips(problem.window, problem.channels)) {
    if (operation_ != ConvolutionOperation::weight_gradient) return;
    scratch_ = strips_ ? cuda_depthwise::partial_bytes(problem_)
                       : cuda_depthwise::partial_bytes_any(problem_);
  }

  std::string name() const override { return "depthwise"; }
  std::size_t scratch() const override { return scratch_; }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    using namespace cuda_depthwise;
    CUstream_st* stream = context_->stream();
    switch (operation_) {
      case ConvolutionOperation::forward:
        return strips_ ? forward(stream, problem_, first, {}, second, result)
                       : forward_any(stream, problem_, first, second, result);
      case ConvolutionOperation::data_gradient:
        return strips_ ? backward_data(stream, problem_, first, second, result)
                       : backward_data_any(stream, problem_, first, second, result);
      case ConvolutionOperation::weight_gradient:
        auto* partials = reinterpret_cast<float*>(scratch);
        auto* sums = static_cast<float*>(result);
        return strips_ ? backward_weights(stream, problem_, first, {}, second, partials, sums)
                       : backward_weights_any(stream, problem_, first, second, partials, sums);
    }
  }

 private:
  CudaContext* context_;
  ConvolutionOperation operation_;
  cuda_depthwise::Problem problem_;
  bool strips_;
  std::size_t scratch_ = 0;
};

}  // namespace

bool is_depthwise(const ConvolutionProblem& problem) {
  return problem.groups == problem.channels && problem.groups == problem.out_channels;
}

cuda_depthwise::Problem depthwise_problem(const CudaContext& context,
                                          const ConvolutionProblem& problem) {
  const Window& window = problem.window;
  TANDEM_CHECK(is_depthwise(problem), "{} groups of {} channels to {} are not depthwise",
               problem.groups, problem.channels, problem.out_channels);
  narrow((problem.rows + window.padding) * (problem.columns + window.padding) * problem.channels);
  narrow(window.kernel * window.kernel * problem.channels);
  return {.batch = narrow(problem.batch),
          .rows = narrow(problem.rows),
          .columns = narrow(problem.columns),
          .out_rows = narrow(problem.out_rows),
          .out_columns = narrow(problem.out_columns),
          .channels = narrow(problem.channels),
          .kernel = narrow(window.kernel),
          .stride = narrow(window.stride),
          .padding = narrow(window.padding),
          .dilation = narrow(window.dilation),
          .dtype = problem.dtype(),
          .multiprocessors = context.device().multiprocessors};
}

ConvolutionPlanPtr depthwise_plan(CudaContext& context, const ConvolutionProblem& problem) {
  return std::make_shared<DepthwisePlan>(context, problem);
}

}  // namespace tandem
