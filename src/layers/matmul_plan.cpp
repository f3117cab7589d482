#include "layers/matmul_plan.h"

#include "layers/cublas_matmul.h"

namespace tandem {
namespace {

MatmulProblem matmul_problem(const ConvolutionProblem& p) {
  const MatmulOperand x{p.pixels(), p.channels};
  const MatmulOperand weight{p.out_channels, p.channels};
  const MatmulOperand y{p.out_pixels(), p.out_channels};
  const auto transposed = [](const MatmulOperand& operand) {
    return MatmulOperand{operand.rows, operand.columns, true};
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
      return {transposed(y), x, p.precision, DType::f32};
  }
  throw Error("a convolution of unknown kind");
}

class MatmulPlan final : public ConvolutionPlan {
 public:
  MatmulPlan(CudaContext& context, const ConvolutionProblem& problem, int algorithm)
      : matmul_(context, matmul_problem(problem), algorithm),
        algorithm_(algorithm),
        // Its operands are x and dy, those of the product dy and x.
        swapped_(problem.operation == ConvolutionOperation::weight_gradient) {}

  bool supported() const { return matmul_.supported(); }
  std::string name() const override { return fmt::format("cublaslt {}", algorithm_); }
  std::size_t scratch() const override { return matmul_.scratch(); }

  void run(const void* first, const void* second, void* result, std::byte* scratch) const override {
    if (swapped_) std::swap(first, second);
    matmul_.run(first, second, nullptr, result, scratch);
  }

 private:
  CublasMatmul matmul_;
  int algorithm_;
  bool swapped_;
};

}  // namespace

bool is_matmul(const ConvolutionProblem& problem) {
  const Window& window = problem.window;
  return window.kernel == 1 && window.stride == 1 && window.padding == 0 && problem.groups == 1;
}

ConvolutionPlanPtr matmul_plan(CudaContext& context, const ConvolutionProblem& problem,
                               int algorithm) {
  auto plan = std::make_shared<const MatmulPlan>(context, problem, algorithm);
  return plan->supported() ? plan : nullptr;
}

}  // namespace tandem
