#pragma once

// Included by sources only.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <map>
#include <memory>
#include <string>

#include "device/cuda_context.h"
#include "device/kernel_choices.h"

namespace tandem {

struct CudaContext::Libraries {
  /// What work is enqueued on now: the context's own stream but in a CudaStreamScope.
  cudaStream_t stream = nullptr;
  cudaStream_t side_stream = nullptr;  ///< from the first use on
  cudnnHandle_t cudnn = nullptr;       ///< told the stream before each use
  cublasLtHandle_t cublas = nullptr;
  /// Kernels chosen by timing, for this device and these versions of the libraries.
  KernelChoices choices;
  /// What was prepared under a key of `choices` and is in use, so that layers of equal shapes share
  /// it.
  std::map<std::string, std::weak_ptr<const void>> prepared;

  explicit Libraries(const CudaDevice& device);
  ~Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

 private:
  int device_;
};

}  // namespace tandem
