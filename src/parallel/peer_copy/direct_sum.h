#pragma once

#include <span>

#include "parallel/colocated/slice_share.h"

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// Enqueues arenas[r][i] = the sum over the ranks of arenas[r][i], for all r and each i in the
/// share, added up in the order of the ranks: one kernel reads the other GPUs' memory and writes
/// it. `arenas`: by rank, as this one maps them, 16-byte aligned.
void sum_directly(CUstream_st* stream, std::span<float* const> arenas, const ArenaRange& share);

}  // namespace tandem
