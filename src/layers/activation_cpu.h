#pragma once

#include <bit>
#include <cstdint>

#include "layers/activation.h"

// One element of each activation, for the loops that apply or fuse them. Branch-free, so that
// compilers vectorise the loops around them. NaN stays NaN.

namespace tandem {

/// e^x to about one unit in the last place, for x within [-87, 88], clamped to it beyond:
/// 2^n times the polynomial of e^r, |r| <= ln(2) / 2 (coefficients of Cephes' expf). std::exp is a
/// call that no loop vectorises around.
inline float fast_exp(float x) {
  constexpr float to_integer = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  x = x < -87.0F ? -87.0F : x;
  x = x > 88.0F ? 88.0F : x;
  const float shifted = x * 1.44269504088896341F + to_integer;
  const float n = shifted - to_integer;
  const float r = (x - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float e = p * r * r + r + 1.0F;
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) + 127U;
  return e * std::bit_cast<float>(exponent << 23);
}

inline float logistic(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

template <Activation A>
float activate(float x) {
  if constexpr (A == Activation::relu) {
    return x < 0.0F ? 0.0F : x;
  } else if constexpr (A == Activation::relu6) {
    const float above = x < 0.0F ? 0.0F : x;
    return above > 6.0F ? 6.0F : above;
  } else if constexpr (A == Activation::silu) {
    return x * logistic(x);
  } else if constexpr (A == Activation::sigmoid) {
    return logistic(x);
  } else {
    return x;
  }
}

/// `gradient` times the derivative, found from x where derivative_needs_input(A), else from the
/// result.
template <Activation A>
float activation_gradient(float seen, float gradient) {
  if constexpr (A == Activation::relu) {
    return seen > 0.0F ? gradient : 0.0F;
  } else if constexpr (A == Activation::relu6) {
    const float above = seen > 0.0F ? gradient : 0.0F;
    return seen < 6.0F ? above : 0.0F;
  } else if constexpr (A == Activation::silu) {
    const float s = logistic(seen);
    return gradient * (s * (1.0F + seen * (1.0F - s)));
  } else if constexpr (A == Activation::sigmoid) {
    return gradient * (seen * (1.0F - seen));
  } else {
    return gradient;
  }
}

}  // namespace tandem
