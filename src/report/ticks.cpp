#include "report/ticks.h"

#include <fmt/format.h>

#include <cmath>

namespace tandem {

double Axis::place(double value) const {
  // Differences of logarithms: quotients of values may overflow.
  if (logarithmic) return (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  return (value - low) / (high - low);
}

Axis linear_axis(double low, double high, int count) {
  if (!(high - low > 1e-12 * std::abs(high))) {
    const double margin = high == 0.0 ? 1.0 : 0.1 * std::abs(high);
    low -= margin;
    high += margin;
  }
  Axis axis{.low = low, .high = high, .logarithmic = false, .ticks = {}};
  const double raw = (high - low) / count;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10.0 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  }
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  for (double k = first; k <= last && axis.ticks.size() < 100; ++k)
    axis.ticks.push_back(k * step + 0.0);  // + 0.0: no "-0"
  return axis;
}

Axis logarithmic_axis(double low, double high) {
  if (!(high > low * 1.001)) {
    low /= 2.0;
    high *= 2.0;
  }
  Axis axis{.low = low, .high = high, .logarithmic = true, .ticks = {}};
  const double decades = std::log10(high) - std::log10(low);
  const int every = decades > 8 ? static_cast<int>(decades / 6) : 1;
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = static_cast<int>(std::ceil(std::log10(high)));
  for (int power = first; power <= last; power += every) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1.0 && decades > 3) break;
      const double tick = factor * std::pow(10.0, power);
      if (tick >= low * 0.999 && tick <= high * 1.001) axis.ticks.push_back(tick);
    }
  }
  return axis;
}

std::string format_short(double value) {
  const double size = std::abs(value);
  if (size >= 1e15) return fmt::format("{:.3g}", value);
  if (size >= 1e9) return fmt::format("{:.4g}G", value / 1e9);
  if (size >= 1e6) return fmt::format("{:.4g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.4g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

}  // namespace tandem
