#pragma once

namespace tandem {

/// Whether the calling thread's CUDA device can run this program's kernels: they are compiled for
/// some architectures, and for newer ones only where the driver may compile them anew. Throws
/// SystemError where CUDA cannot tell.
bool has_kernel_image();

/// What the kernels were compiled for, as CMake writes it: "80-real, 90".
const char* built_architectures();

}  // namespace tandem
