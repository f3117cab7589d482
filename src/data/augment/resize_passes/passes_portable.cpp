#include "data/augment/resize_passes/lane_instructions_portable.h"
// Behind it
#include "data/augment/resize_passes/own_passes.h"

namespace tandem {

constinit const ResizePasses portable_resize_passes = own_passes("portable");

}  // namespace tandem
