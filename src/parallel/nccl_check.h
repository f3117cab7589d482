#pragma once

// For nccl_*.cpp and *_cuda.cpp alone.

#include <nccl.h>

#include "base/error.h"

namespace tandem {

/// Throws SystemError with NCCL's text for `result`, and the last words of `comm` (may be null),
/// unless it succeeded. ncclInProgress is a failure here: whoever allows it asks before.
void check_nccl(ncclResult_t result, ncclComm_t comm, const char* call,
                const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace tandem
