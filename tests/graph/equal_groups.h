#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "graph/parameters.h"

namespace tandem {

/// For StepPlanOptions::gradient_groups: groups of so many trained parameters, the last one of
/// fewer.
inline std::vector<ParameterRange> equal_groups(const ParameterStore& store,
                                                std::size_t parameters) {
  std::vector<ParameterRange> groups;
  const std::size_t all = store.trained().size();
  for (std::size_t first = 0; first < all; first += parameters) {
    groups.push_back({first, std::min(first + parameters, all)});
  }
  return groups;
}

}  // namespace tandem
