#pragma once

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace tandem {

/// The middle one of the values by size, or the mean of the middle two. Throws Error where there
/// are none.
inline double median(std::vector<double> values) {
  TANDEM_CHECK(!values.empty(), "nothing to take the median of");
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace tandem
