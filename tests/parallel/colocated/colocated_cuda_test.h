#pragma once

#include "parallel/placement/rank_topology.h"

namespace tandem {

/// How the ranks lie on GPUs.
const RankTopology& topology();

/// Whether the test's script says that it runs under MPS (with_mps.sh).
bool under_mps();

}  // namespace tandem
