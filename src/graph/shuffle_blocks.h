#pragma once

#include "graph/blocks.h"

namespace tandem {

/// `shuffle_stage`: `count` units of ShuffleNet V2 (Ma et al. 2018, figure 3) with `out` channels,
/// an even number, named name.0, name.1, ... The first halves rows and columns and works on its
/// whole input in both branches (`branch1`, `branch2`); the others pass half of their channels on
/// and work on the other half (`branch2`).
int build_shuffle_stage(const BlockRequest& request);

}  // namespace tandem
