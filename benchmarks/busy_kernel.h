#pragma once

#include "device/cuda_context.h"

namespace tandem {

/// Enqueues `kernels` kernels, each of which computes on every multiprocessor for some microseconds
/// and hardly touches memory. `result`: a float on the device.
void keep_busy(CudaContext& gpu, int kernels, float* result);

}  // namespace tandem
