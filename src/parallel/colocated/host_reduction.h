#pragma once

#include <memory>

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"
#include "parallel/reduction_kind.h"

namespace tandem {

/// What sums gradients in host memory: a SharedMemoryCommunicator over `world`, which outlives it,
/// or null where `world` itself does: where there is one rank, where it is to be flat, where
/// automatic finds no two ranks on one host or no memory that they can share (it then says so).
/// Collective. Throws InputError on
/// all ranks where `kind` is two_level and ranks of one host cannot share memory.
std::unique_ptr<Communicator> make_host_reduction(Communicator& world, const RankTopology& topology,
                                                  ReductionKind kind);

}  // namespace tandem
