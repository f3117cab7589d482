#include "data/augment/resize_passes/resize_passes.h"

namespace tandem {

std::span<const ResizePasses> resize_passes() { return {&portable_resize_passes, 1}; }

}  // namespace tandem
