#include "layers/plans/matmul_plan.h"

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/plans/cublas_matmul.h"

namespace tandem {
namespace {

/// Of one pixel each, with rows of whole 16-byte words, which cuBLASLt is promised.
bool is_one_pixel(const ConvolutionProblem& p) {
  return p.rows * p.columns == 1 && p.out_rows * p.out_columns == 1 && p.window.dilation == 1 &&
         p.window.padding < p.window.kernel && p.channels % 8 == 0;
}

/// Elements of one filter.
std::int64_t filter_elements(const ConvolutionProblem& p) {
  return p.window.kernel * p.window.kernel * p.channels;
}

/// Elements before the tap that sees the pixel.
std::int64_t tap_offset(const ConvolutionProblem& p) {
  return (p.window.padding * p.window.kernel + p.window.padding) * p.channels;
}

MatmulProblem matmul_problem(const ConvolutionProblem& p) {
  const MatmulOperand x{p.pixels(), p.channels};
  const MatmulOperand weight{p.out_channels, p.channels, false, filter_elements(p)};
  const MatmulOperand y{p.out_pixels(), p.out_channels};
  const auto transposed = [](const MatmulOperand& operand) {
    return MatmulOperand{operand.rows, operand.columns, true, operand.pitch};
  };
  switch (p.operation) {
    case ConvolutionOperation::forward:
      return {x, transposed(weight), p.precision, p.dtype()};
    case ConvolutionOperation::data_gradient:
      return {.left = y,
              .right = weight,
              .precision = p.precision,
              .result = p.dtype(),
              .adds = p.adds};
    case ConvolutionOperation::weight_gradient:
      return {.left = transposed(y),
              .right = x,
              .precision = p.precision,
              .result = DType::f32,
              .result_pitch = weight.pitch};
  }
  throw Error("a convolution of unknown kind");
}

class MatmulPlan final : public ConvolutionPlan {
 public:
  MatmulPlan(CudaContext& context, const ConvolutionProblem& problem, int algorithm)
      : context_(&context),
        problem_(problem),
        matmul_(context, matmul_problem(problem), algorithm),
        algorithm_(algorithm) {}

  bool supported() const { return matmul_.supported(); }
  std::string name() const override { return fmt::format("cublaslt {}", algorithm_); }
  std::size_t scratch() const override { return matmul_.scratch(); }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    const std::int64_t offset = tap_offset(problem_);
    if (problem_.operation != ConvolutionOperation::weight_gradient) {
      const auto* weight = static_cast<const std::byte*>(second) +
                           offset * static_cast<std::int64_t>(size_of(problem_.dtype()));
      return matmul_.run(first, weight, nullptr, result, scratch);
    }
    if (problem_.window.kernel > 1) {
      TANDEM_CUDA_CHECK(cudaMemsetAsync(result, 0, problem_.result_bytes(), context_->stream()));
    }
    // The operands are x and dy, those of the product dy and x.
    matmul_.run(second, first, nullptr, static_cast<float*>(result) + offset, scratch);
  }

 private:
  CudaContext* context_;
  ConvolutionProblem problem_;
  CublasMatmul matmul_;
  int algorithm_;
};

}  // namespace

bool is_matmul(const ConvolutionProblem& problem) {
  if (problem.groups != 1) return false;
  const Window& window = problem.window;
  const bool one_tap = window.kernel == 1 && window.stride == 1 && window.padding == 0;
  return one_tap || is_one_pixel(problem);
}

ConvolutionPlanPtr matmul_plan(CudaContext& context, const ConvolutionProblem& problem,
                               int algorithm) {
  auto plan = std::make_shared<const MatmulPlan>(context, problem, algorithm);
  return plan->supported() ? plan : nullptr;
}

}  // namespace tandem
