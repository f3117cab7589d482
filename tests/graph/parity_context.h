#pragma once

#include "device/any_context.h"

namespace tandem {

/// The device whose results are held to PyTorch's, or to a plain model's. Each program links one
/// kind: parity_context_cpu.cpp or parity_context_cuda.cpp.
AnyContext parity_context();

/// Whether a fused model's convolutions are the very kernels of the plain one there. A GPU's are
/// chosen by timing, for each of the two.
bool same_kernels_fused();

}  // namespace tandem
