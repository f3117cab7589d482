#pragma once

#include <span>

#include "parallel/slice_share.h"

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// Enqueues arenas[g][i] = the sum over the GPUs of arenas[g][i], for all g and each i in the
/// share, added up in the order of the GPUs: one kernel reads the other GPUs' memory and writes it.
/// `arenas`: by GPU, as this process maps them, 16-byte aligned. `ranks_of_gpu`: ranks that share
/// this GPU, and each sum a share of their own at the same time. `only`: the one GPU whose arena
/// gets the sums; -1: all.
///
/// The kernel has few blocks: each takes a multiprocessor from what computes beside it, and what
/// limits it is the links between GPUs.
void sum_directly(CUstream_st* stream, std::span<float* const> arenas, const ArenaRange& share,
                  int ranks_of_gpu = 1, int only = -1);

}  // namespace tandem
