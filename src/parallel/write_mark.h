#pragma once

// For *.cu alone.

#include "parallel/operation_marks.h"

namespace tandem {

/// Tells the host that an operation begins; for one thread. Operations of several streams may begin
/// at one moment, so the device counts them in its own memory: the host's is far.
__device__ inline void write_mark(const OperationMark& mark) {
  if (mark.words == nullptr) return;
  const std::uint32_t begun = atomicAdd(mark.counter, 1U) + 1U;
  volatile OperationWords* const words = mark.words;
  words->begun = begun;
  words->last = mark.number;
}

}  // namespace tandem
