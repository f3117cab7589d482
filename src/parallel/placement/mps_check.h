#pragma once

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// Collective, over a host kind, once every rank has made its CUDA context: whether this rank's GPU
/// runs the ranks that share it at the same time, under MPS, as the MPS daemon itself says. False
/// where a rank has its GPU for itself. `topology`: with the ranks' GPUs.
///
/// Where the ranks of a GPU are no clients of MPS they take turns on it, which rank 0 warns of.
/// Where CUDA_MPS_PIPE_DIRECTORY is set MPS is meant, and where some are clients the others cannot
/// be alone: then it throws the same InputError on all ranks, naming those that are not; and
/// SystemError where the daemon that is meant does not answer.
///
/// `driver_says_so`: whether CUDA tells this rank that its context is MPS's
/// (CudaDevice::under_mps). It counts where the daemon answers and knows none of a GPU's ranks, as
/// one outside of their container.
bool ranks_run_under_mps(Communicator& host, const RankTopology& topology,
                         bool driver_says_so = false);

}  // namespace tandem
