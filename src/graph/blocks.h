#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/config_table.h"
#include "graph/graph.h"

namespace tandem {

/// A named piece of a model that expands to several layers. Builders read their keys from the
/// model file's node, add layers named below `name`, and return the index of the last one.
struct BlockKind {
  std::string name;
  int (*build)(Graph& graph, const std::string& name, int input, const ConfigTable& table);
};

/// Every kind of block, in one table (blocks.cpp):
/// - `basic_stage`: `count` residual basic blocks of `out` channels, the first with `stride` (1)
///   (He et al. 2016, "Deep residual learning", figure 5 left), named name.0, name.1, ...
/// - `bottleneck_stage`: the same with bottlenecks of width `out` and 4 `out` output channels, the
///   stride in the 3x3 convolution as torchvision has it.
/// A block whose shape changes gets a 1x1 convolution and normalisation in its shortcut
/// (`downsample.0`, `downsample.1`). Parameter names are torchvision's.
std::span<const BlockKind> block_kinds();
const BlockKind* find_block_kind(std::string_view name);

}  // namespace tandem
