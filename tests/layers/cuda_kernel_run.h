#pragma once

#include "device/any_context.h"
#include "layers/kernel_run.h"

namespace tandem {

struct CudaMode {
  Precision precision = Precision::fp32;
  bool training = true;
  bool fixed_statistics = false;
  std::int64_t groups = 1;
  std::vector<bool> wanted{};
  unsigned char content = 0xff;
  std::vector<bool> adds{};
  NormKernels norm_kernels = NormKernels::by_size;  ///< what cases are made for
};

/// What run_kernel() does, on a CUDA device: values travel as f32 and are rounded to the
/// precision's type there. `context` holds a CudaContext.
KernelResult run_cuda_kernel(AnyContext& context, const Layer& layer, const KernelData& data,
                             const CudaMode& mode);

/// The values as the device's type holds them.
std::vector<float> rounded(AnyContext& context, const std::vector<float>& values, DType dtype);

}  // namespace tandem
