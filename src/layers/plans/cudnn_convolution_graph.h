#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "layers/plans/convolution_problem.h"

namespace tandem {

class CudaContext;

/// cuDNN's plans for one convolution, in the order of its heuristics: only those that compute in
/// the problem's precision and give the same bits every time. Included by sources only.
class CudnnConvolutionGraph {
 public:
  /// `result` is the dtype of what is written; inputs are of problem.dtype().
  CudnnConvolutionGraph(CudaContext& context, const ConvolutionProblem& problem, DType result);
  ~CudnnConvolutionGraph();

  /// How many plans the heuristics name; 0 where cuDNN does not take the problem.
  int plan_count() const { return plan_count_; }
  /// The same for the same plan in every process with this version of cuDNN.
  std::string plan_name(int index) const;
  /// Whether the plan exists here, computes as it must and needs at most `most_workspace` bytes.
  /// Takes milliseconds, or a second where cuDNN compiles.
  bool build(int index, std::size_t most_workspace);
  /// Of a plan that is built.
  std::size_t workspace(int index) const;
  /// Enqueues a plan that is built. Operands as in ConvolutionProblem. Throws SystemError where
  /// cuDNN refuses.
  void run(int index, const void* first, const void* second, void* result,
           std::byte* workspace) const;

 private:
  struct Graph;
  CudaContext* context_;
  std::unique_ptr<Graph> graph_;
  int plan_count_ = 0;
};

}  // namespace tandem
