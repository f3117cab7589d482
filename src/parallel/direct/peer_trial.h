#pragma once

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

class CudaContext;

/// Collective, of most_members ranks at most: whether each rank, all on one host, can map memory of
/// all others' GPUs, read it and write it. Tried, since a process may see its own GPU alone and
/// still map others', or be forbidden what GPUs could do; and where an IOMMU or a virtual machine
/// is in the way, copies may seem to work and bring other bytes. Copies that hang end by the
/// time-out of `host`.
bool gpus_reach_each_other(Communicator& host, CudaContext& context, const RankTopology& topology);

}  // namespace tandem
