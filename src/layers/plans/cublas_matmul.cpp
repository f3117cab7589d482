#include "layers/plans/cublas_matmul.h"

#include <memory>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_libraries.h"

namespace tandem {
namespace {

constexpr std::size_t most_workspace = std::size_t{32} << 20U;
/// What the weights' and gradients' arenas grant their tensors.
constexpr std::uint32_t alignment = 16;

cudaDataType_t cuda_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CUDA_R_32F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      throw Error(fmt::format("cuBLAS does not multiply {}", name_of(dtype)));
  }
}

template <typename T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  TANDEM_CUDA_CHECK(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
}

template <typename T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  TANDEM_CUDA_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

/// cuBLAS counts matrices by columns: a row-major matrix is the transpose of what it sees.
cublasLtMatrixLayout_t seen_layout(const MatmulOperand& matrix, DType dtype) {
  cublasLtMatrixLayout_t layout = nullptr;
  TANDEM_CUDA_CHECK(cublasLtMatrixLayoutCreate(
      &layout, cuda_type(dtype), static_cast<std::uint64_t>(matrix.columns),
      static_cast<std::uint64_t>(matrix.rows), matrix.pitch == 0 ? matrix.columns : matrix.pitch));
  return layout;
}

cublasOperation_t seen_operation(const MatmulOperand& operand) {
  return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

struct PreferenceDeleter {
  void operator()(cublasLtMatmulPreferenceOpaque_t* preference) const {
    (void)cublasLtMatmulPreferenceDestroy(preference);
  }
};

}  // namespace

// result^T = right^T x left^T, and transposes are what cuBLAS sees: so its A is `right`, its B is
// `left`, and rows of its result are our columns, which is how it adds a bias.
CublasMatmul::CublasMatmul(CudaContext& context, const MatmulProblem& problem, int algorithm)
    : context_(&context), bias_(problem.bias), adds_(problem.adds) {
  const MatmulOperand& left = problem.left;
  const MatmulOperand& right = problem.right;
  const std::int64_t rows = left.transposed ? left.columns : left.rows;
  const std::int64_t columns = right.transposed ? right.rows : right.columns;
  TANDEM_CHECK((left.transposed ? left.rows : left.columns) ==
                   (right.transposed ? right.columns : right.rows),
               "a product of matrices that do not fit");
  const DType dtype = activation_dtype(problem.precision);
  const auto compute =
      problem.precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  TANDEM_CUDA_CHECK(cublasLtMatmulDescCreate(&operation_, compute, CUDA_R_32F));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, seen_operation(right));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, seen_operation(left));
  if (bias_) {
    set(operation_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, cuda_type(dtype));
  }
  layouts_ = {seen_layout(right, dtype), seen_layout(left, dtype),
              seen_layout({rows, columns, false, problem.result_pitch}, problem.result)};
  choose_algorithm(algorithm);
}

// What is destroyed here was created, so this cannot fail.
CublasMatmul::~CublasMatmul() {
  for (cublasLtMatrixLayout_t layout : layouts_) {
    if (layout != nullptr) (void)cublasLtMatrixLayoutDestroy(layout);
  }
  if (operation_ != nullptr) (void)cublasLtMatmulDescDestroy(operation_);
}

void CublasMatmul::choose_algorithm(int algorithm) {
  cublasLtMatmulPreference_t created = nullptr;
  TANDEM_CUDA_CHECK(cublasLtMatmulPreferenceCreate(&created));
  const std::unique_ptr<cublasLtMatmulPreferenceOpaque_t, PreferenceDeleter> preference(created);
  set(created, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{most_workspace});
  // Partial sums in the workspace, added in f32 and in order.
  set(created, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(created, attribute, alignment);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(algorithm) + 1);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      context_->libraries().cublas, operation_, layouts_[0], layouts_[1], layouts_[2], layouts_[2],
      created, algorithm + 1, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return;
  TANDEM_CUDA_CHECK(status);
  heuristic_ = results.back();
  supported_ = found > algorithm && heuristic_.state == CUBLAS_STATUS_SUCCESS;
}

void CublasMatmul::run(const void* left, const void* right, const void* bias, void* result,
                       std::byte* scratch) const {
  TANDEM_CHECK(supported_, "a product that cuBLAS has no algorithm for");
  TANDEM_CHECK(bias_ == (bias != nullptr), "a product is given another bias than was prepared");
  if (bias_) set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1.0F;
  const float kept = adds_ ? 1.0F : 0.0F;  // of what is in the result
  TANDEM_CUDA_CHECK(cublasLtMatmul(context_->libraries().cublas, operation_, &one, right,
                                   layouts_[0], left, layouts_[1], &kept, result, layouts_[2],
                                   result, layouts_[2], &heuristic_.algo, scratch,
                                   heuristic_.workspaceSize, context_->stream()));
}

}  // namespace tandem
