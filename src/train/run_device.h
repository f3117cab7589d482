#pragma once

#include "device/machine.h"
#include "device/open_context.h"
#include "parallel/placement/rank_topology.h"
#include "train/run_config.h"

namespace tandem {

/// Collective: the device that this rank computes on, the CPU with the threads that the run file or
/// the host's ranks leave it, or a GPU of its own. Throws InputError on all ranks where one finds
/// no GPU, where Tandem's version or those of a GPU's libraries differ between ranks, or where the
/// run's precision is none of the device's, and on the ranks of a host that has far fewer cores
/// than the run wants threads; warns where the GPUs differ.
AnyContext open_run_device(const RunConfig& config, const Machine& machine,
                           const RankTopology& topology, Communicator& communicator);

}  // namespace tandem
