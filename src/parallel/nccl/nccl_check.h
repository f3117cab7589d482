#pragma once

// For nccl_*.cpp and *_cuda.cpp alone.

#include <nccl.h>

#include <string_view>

#include "base/error.h"

namespace tandem {

/// Throws SystemError with NCCL's text for `result`, and the last words of `comm` (may be null),
/// unless it succeeded: PeerError where NCCL has lost another rank. `call` is what failed, as in
/// "in ncclCommFinalize" or "in the step's end". ncclInProgress is a failure here: whoever allows
/// it asks before.
void check_nccl(ncclResult_t result, ncclComm_t comm, std::string_view call,
                const char* file = __builtin_FILE(), int line = __builtin_LINE());

}  // namespace tandem
