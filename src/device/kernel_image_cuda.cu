#include <algorithm>
#include <array>

#include "device/cuda_check.h"
#include "device/kernel_image.h"

namespace tandem {
namespace {

/// Stands for all kernels, which are compiled for the same architectures.
__global__ void any_kernel() {}

}  // namespace

bool has_kernel_image() {
  cudaFuncAttributes attributes{};
  const cudaError_t status = cudaFuncGetAttributes(&attributes, any_kernel);
  constexpr std::array none{cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction,
                            cudaErrorUnsupportedPtxVersion, cudaErrorInvalidKernelImage,
                            cudaErrorJitCompilationDisabled};
  if (std::ranges::find(none, status) != none.end()) {
    (void)cudaGetLastError();
    return false;
  }
  TANDEM_CUDA_CHECK(status);
  return true;
}

const char* built_architectures() { return TANDEM_CUDA_ARCHITECTURES; }

}  // namespace tandem
