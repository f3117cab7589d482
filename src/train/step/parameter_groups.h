#pragma once

#include <vector>

#include "graph/parameters.h"
#include "optim/optimizer_config.h"

namespace tandem {

/// How the optimizer treats each of the store's trained parameters.
std::vector<ParameterGroupSlice> parameter_groups(const OptimizerConfig& config,
                                                  const ParameterStore& store);

}  // namespace tandem
