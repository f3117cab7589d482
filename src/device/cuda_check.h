#pragma once

// CUDA's and its libraries' status codes as exceptions. Included by sources only.

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "base/error.h"

namespace tandem {

[[noreturn]] void cuda_failed(cudaError_t status, const char* expression, const char* file,
                              int line);
[[noreturn]] void cudnn_failed(cudnnStatus_t status, const char* expression, const char* file,
                               int line);
[[noreturn]] void cublas_failed(cublasStatus_t status, const char* expression, const char* file,
                                int line);

inline void check_cuda(cudaError_t status, const char* expression, const char* file, int line) {
  if (status != cudaSuccess) cuda_failed(status, expression, file, line);
}
inline void check_cuda(cudnnStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUDNN_STATUS_SUCCESS) cudnn_failed(status, expression, file, line);
}
inline void check_cuda(cublasStatus_t status, const char* expression, const char* file, int line) {
  if (status != CUBLAS_STATUS_SUCCESS) cublas_failed(status, expression, file, line);
}

}  // namespace tandem

/// Throws SystemError unless a call of CUDA, cuDNN or cuBLAS succeeded.
#define TANDEM_CUDA_CHECK(call) ::tandem::check_cuda((call), #call, __FILE__, __LINE__)
/// The same for the launch of a kernel that stands before it.
#define TANDEM_CUDA_CHECK_LAUNCH() \
  ::tandem::check_cuda(cudaGetLastError(), "kernel launch", __FILE__, __LINE__)
