#pragma once

// Included by sources only.

#include <cuda_runtime_api.h>

#include <vector>

namespace tandem {

/// CUDA events without time stamps, made when they are first needed and then used again, so that
/// steady work makes none. Outlives the events taken from it.
class CudaEventPool {
 public:
  CudaEventPool() = default;
  ~CudaEventPool();
  CudaEventPool(const CudaEventPool&) = delete;
  CudaEventPool& operator=(const CudaEventPool&) = delete;

  cudaEvent_t take();
  /// What `first` was given so far comes before what `then` is given from here on.
  void order(cudaStream_t first, cudaStream_t then);
  void give_back(cudaEvent_t event) noexcept { free_.push_back(event); }

 private:
  std::vector<cudaEvent_t> all_;
  std::vector<cudaEvent_t> free_;  // has room for all
};

}  // namespace tandem
