#pragma once

#include <string>

namespace tandem {

/// cuDNN 9 loads most of itself from further libraries when it first needs them. Why one that
/// training needs cannot be loaded, in the system loader's words that name it; empty where all of
/// them can, or there is no libcudnn.so.9. Loads them, once for each process: a fraction of a
/// second where they are not in memory.
const std::string& missing_cudnn_part();

}  // namespace tandem
