#pragma once

#include <span>
#include <string>

#include "base/config_table.h"
#include "layers/layer.h"

namespace tandem {

/// A kind of layer that model files may name, and how it is made from its keys there.
struct LayerKind {
  std::string name;
  LayerPtr (*from_config)(const ConfigTable& table);
};

/// Every kind, in one table (registry.cpp): adding a layer adds one line to it.
std::span<const LayerKind> layer_kinds();

/// The kind of that name, or null.
const LayerKind* find_layer_kind(std::string_view name);

}  // namespace tandem
