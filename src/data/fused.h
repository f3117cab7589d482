#pragma once

#include <algorithm>
#include <cstdint>

namespace tandem {

/// a * b + c in float32, rounded once, on machines without such an instruction too: the product of
/// two floats is exact in double, and so is the sum for values as far apart as pixels and weights
/// are.
inline float fused(float a, float b, float c) {
  return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                            static_cast<double>(c));
}

/// Clamped to 0..255 and cut off.
inline std::uint8_t to_level(float value) {
  return static_cast<std::uint8_t>(static_cast<int>(std::clamp(value, 0.0F, 255.0F)));
}

}  // namespace tandem
