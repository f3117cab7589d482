#pragma once

#include "parallel/colocated/colocated_cuda.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

/// How the ranks lie on GPUs.
const RankTopology& topology();

/// As the test's script says whether it runs under MPS (with_mps.sh).
GpuSharing sharing_of_test();

}  // namespace tandem
