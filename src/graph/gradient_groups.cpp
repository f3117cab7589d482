#include "graph/gradient_groups.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tandem {

void check_gradient_groups(std::span<const ParameterRange> groups, std::size_t count) {
  std::size_t next = 0;
  for (const ParameterRange& group : groups) {
    TANDEM_CHECK(group.first == next && group.last > next,
                 "gradients of parameters [{}, {}) behind parameter {}", group.first, group.last,
                 next);
    next = group.last;
  }
  TANDEM_CHECK(next == count, "groups of {} gradients for {}", next, count);
}

std::vector<GradientGroup> gradient_groups(const ParameterStore& store,
                                           std::span<const ParameterRange> groups,
                                           std::span<const GradientOwner> owners) {
  std::vector<GradientGroup> result;
  int lowest = std::numeric_limits<int>::max();
  for (const ParameterRange& range : groups) {
    const Parameter& last = store.trained()[range.last - 1];
    GradientGroup group{.offset = store.trained()[range.first].offset};
    group.elements = last.offset + last.shape.elements() - group.offset;
    for (const GradientOwner& owner : owners.subspan(range.first, range.last - range.first)) {
      group.highest = std::max(group.highest, owner.node);
      lowest = std::min(lowest, owner.node);
      group.aside = group.aside && owner.aside;
    }
    group.lowest = lowest;
    result.push_back(group);
  }
  return result;
}

}  // namespace tandem
