#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem {

/// The value of bf16 (8 significant bits, f32's exponents) that is nearest, of two the even one: by
/// arithmetic, not on bits.
inline float nearest_bf16(float value) {
  if (!std::isfinite(value) || value == 0.0F) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent - 8, -133);  // below: subnormal numbers
  const double rounded =
      std::ldexp(std::nearbyint(std::ldexp(static_cast<double>(value), -quantum)), quantum);
  // The first that is beyond the largest one.
  if (std::abs(rounded) >= std::ldexp(1.0, 128)) {
    return std::copysign(std::numeric_limits<float>::infinity(), value);
  }
  return static_cast<float>(rounded);
}

}  // namespace tandem
