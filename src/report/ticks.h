#pragma once

#include <string>
#include <vector>

namespace tandem {

/// A chart's axis: values from `low` to `high`, with round numbers between them.
struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool logarithmic = false;
  std::vector<double> ticks;  ///< ascending, within the range

  /// Where a value lies: 0 at `low`, 1 at `high`.
  double place(double value) const;
};

/// An axis over `low` to `high` (finite; the same value twice gives a range around it) of about
/// `count` ticks at multiples of 1, 2 or 5 times a power of ten. `low` and `high` stay as they are.
Axis linear_axis(double low, double high, int count);

/// The same, logarithmic; 0 < low <= high.
Axis logarithmic_axis(double low, double high);

/// "0.25", "12k", "3.4M", "1e-05": up to four digits.
std::string format_short(double value);

}  // namespace tandem
