#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/config_table.h"
#include "graph/graph.h"

namespace tandem {

/// What a block is built from: its node of the model file, and what the file sets for all nodes.
struct BlockRequest {
  Graph& graph;
  const std::string& name;
  int input;
  const ConfigTable& table;
  double stochastic_depth = 0.0;  ///< the rate of the model's last block
};

/// A named piece of a model that expands to several layers. Builders read their keys from the
/// request's table, add layers named below its name, and return the index of the last one.
struct BlockKind {
  std::string name;
  int (*build)(const BlockRequest& request);
};

/// Every kind of block, in one table (blocks.cpp):
/// - `basic_stage`, `bottleneck_stage`: residual blocks (residual_blocks.h)
/// - `shuffle_stage`: units of ShuffleNet V2 (shuffle_blocks.h)
/// - `inverted_residual_stage`: blocks of MobileNetV2 (inverted_residual_blocks.h)
/// - `mbconv_stage`: blocks of EfficientNet (mbconv_blocks.h)
/// Parameter names are torchvision's.
std::span<const BlockKind> block_kinds();
const BlockKind* find_block_kind(std::string_view name);

}  // namespace tandem
