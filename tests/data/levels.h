#pragma once

#include <algorithm>
#include <cmath>

#include "data/support.h"

namespace tandem::testing {

/// A real value as a level: clamped and cut off.
inline int cut_off(double value) { return static_cast<int>(std::clamp(value, 0.0, 255.0)); }

/// Whether `level` is `value` cut off; next to a whole number float arithmetic may fall on either
/// side.
inline bool is_level(int level, double value) {
  constexpr double tolerance = 1e-3;
  return level == cut_off(value - tolerance) || level == cut_off(value + tolerance);
}

/// Expects out(y, x, c) to satisfy `check(level, y, x, c)`.
template <typename Check>
void expect_levels(const Image& out, Check&& check) {
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x) {
      for (int c = 0; c < out.channels; ++c) {
        ASSERT_TRUE(check(at(out, y, x, c), y, x, c))
            << at(out, y, x, c) << " at " << y << "," << x << "," << c;
      }
    }
  }
}

}  // namespace tandem::testing
