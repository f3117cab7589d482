#pragma once

#include "layers/normalisation/batch_norm_ways_cuda.h"

namespace tandem {

/// The fastest way for such a tensor: what was chosen in an earlier run on this device, else what
/// is measured now, forward and backward together, in memory that is freed again; kept as plans are
/// (layers/tuning/plan_tuner.h). As in a step, the tensor to normalise was just written, and the
/// gradient of its result, and nothing else that is read is in the device's cache. Another way than
/// that by size must be faster by more than measurements differ. By size where there is no other,
/// where `which` says so or nothing is to be timed, or where there is not the memory.
BatchNormWay choose_batch_norm_way(CudaContext& context, const BatchNormSetup& setup,
                                   NormKernels which);

}  // namespace tandem
