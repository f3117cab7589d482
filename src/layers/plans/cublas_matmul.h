#pragma once

#include <cublasLt.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"
#include "tensor/precision.h"

namespace tandem {

class CudaContext;

/// A row-major matrix; `transposed` says that its transpose is what is multiplied.
struct MatmulOperand {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;
  std::int64_t pitch = 0;  ///< elements from row to row; 0 where the matrix is dense
};

/// What CublasMatmul computes: result = left x right (+ bias, one number a column of the result)
/// (+ result).
struct MatmulProblem {
  MatmulOperand left;
  MatmulOperand right;
  Precision precision = Precision::fp32;  ///< operands are of its activations' dtype, sums f32
  DType result = DType::f32;
  bool bias = false;              ///< of the operands' dtype
  bool adds = false;              ///< to what is in the result
  std::int64_t result_pitch = 0;  ///< as of an operand
};

/// A matrix product by cuBLASLt, with an algorithm that adds in a fixed order. Included by sources
/// only.
class CublasMatmul {
 public:
  /// Takes the algorithm that stands at place `algorithm` of cuBLASLt's heuristics.
  CublasMatmul(CudaContext& context, const MatmulProblem& problem, int algorithm = 0);
  ~CublasMatmul();
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  /// Whether cuBLASLt has so many algorithms for it; run() needs one.
  bool supported() const { return supported_; }
  std::size_t scratch() const { return supported_ ? heuristic_.workspaceSize : 0; }
  /// Enqueues it. `bias` is null where the problem has none. Operands are 16-byte aligned, scratch
  /// is 256-byte aligned.
  void run(const void* left, const void* right, const void* bias, void* result,
           std::byte* scratch) const;

 private:
  void choose_algorithm(int algorithm);

  CudaContext* context_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  std::array<cublasLtMatrixLayout_t, 3> layouts_{};  ///< of cuBLAS's A, B and result
  cublasLtMatmulHeuristicResult_t heuristic_{};
  bool bias_;
  bool adds_;
  bool supported_ = false;
};

}  // namespace tandem
