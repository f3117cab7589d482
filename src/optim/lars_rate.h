#pragma once

#include <cmath>

#include "optim/lars_kernels.h"

namespace tandem {

/// The rate of one slice from the sums of squares of its parameters and gradients. For hosts and
/// devices: a template, since only templates may be constexpr and call what is not.
template <typename Real>
constexpr float lars_rate(const LarsRates& given, const LarsSlice& slice, Real parameter_squares,
                          Real gradient_squares) {
  float learning_rate = given.learning_rate;
  float gradient_scale = given.gradient_scale;
  follow(given.control, learning_rate, gradient_scale);
  const Real w = std::sqrt(parameter_squares);
  const Real g = std::sqrt(gradient_squares) * std::abs(static_cast<Real>(gradient_scale));
  Real ratio = 1.0;
  if (slice.adapt && w > 0.0 && g > 0.0) {
    ratio = static_cast<Real>(given.trust_coefficient) * w /
            (g + static_cast<Real>(slice.weight_decay) * w);
  }
  return static_cast<float>(static_cast<Real>(learning_rate) * ratio);
}

}  // namespace tandem
