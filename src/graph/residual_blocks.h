#pragma once

#include <string>

#include "base/config_table.h"
#include "graph/graph.h"

namespace tandem {

/// Builders of the residual stages that blocks.h describes.
int build_basic_stage(Graph& graph, const std::string& name, int input, const ConfigTable& table);
int build_bottleneck_stage(Graph& graph, const std::string& name, int input,
                           const ConfigTable& table);

}  // namespace tandem
