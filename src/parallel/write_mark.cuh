#pragma once

#include <cuda_runtime.h>

#include "parallel/operation_marks.h"

namespace tandem {

/// Tells the host that an operation begins; for one thread. The operations of one OperationMarks
/// begin one after the other. They are counted in the device's memory, since the host's is far.
__device__ inline void write_mark(const OperationMark& mark) {
  if (mark.words == nullptr) return;
  volatile OperationWords* const words = mark.words;
  words->begun = ++*mark.counter;
  words->last = mark.number;
}

}  // namespace tandem
