#pragma once

#include "data/input_cuda.h"
#include "data/raw_batch.h"

namespace tandem {

/// What raw batches are, and what a device makes of them.
struct RawInput {
  RawBatchLayout layout;
  InputSpec spec;
};

}  // namespace tandem
