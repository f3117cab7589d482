// Compiled for AVX2, whatever the rest is compiled for.

#include "data/augment/resize_passes/lane_instructions_avx2.h"
// Behind it
#include "data/augment/resize_passes/own_passes.h"

namespace tandem {

constinit const ResizePasses avx2_resize_passes = own_passes("AVX2");

}  // namespace tandem
