#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "graph/parameters.h"

namespace tandem {

// The groups of GradientMemory::passing (graph/step_plan.h).

/// Throws Error unless the groups follow each other from parameter 0 to parameter `count`.
void check_gradient_groups(std::span<const ParameterRange> groups, std::size_t count);

/// Whose gradient it is.
struct GradientOwner {
  int node = 0;           ///< the layer's index in the graph
  std::size_t place = 0;  ///< among the layer's parameters
  bool aside = false;     ///< only what the layer computes aside touches it
};

/// What must be kept of a group: from the backward pass of its highest layer on, which is its
/// first, until the lowest layer of it and of the groups before, behind which it is used, is done.
struct GradientGroup {
  std::int64_t offset = 0;  ///< in the store's arenas
  std::int64_t elements = 0;
  int highest = 0;
  int lowest = 0;
  bool aside = true;  ///< all of it
};

/// By group; `owners` by trained parameter of the store.
std::vector<GradientGroup> gradient_groups(const ParameterStore& store,
                                           std::span<const ParameterRange> groups,
                                           std::span<const GradientOwner> owners);

}  // namespace tandem
