#pragma once

#include <cmath>
#include <cstdint>

#include "optim/gradient_norm.h"
#include "optim/step_control.h"

namespace tandem {

/// How steps are prepared.
struct StepRules {
  /// Largest global norm of the gradients; 0: they are not clipped.
  double clip_norm = 0.0;
  /// Whether losses are scaled by StepState::loss_scale, which then follows the gradients.
  bool loss_scaling = false;

  /// Whether the gradients must be looked at.
  constexpr bool measures() const { return clip_norm > 0.0 || loss_scaling; }
};

/// GradScaler's rule, after a step whose gradients were all finite or not.
constexpr void follow_gradients(LossScale& loss, bool finite) {
  constexpr float largest = 0x1p127F;  // of those that are a float when doubled, the half
  if (!finite) {
    loss.scale = loss.scale > 2.0F ? loss.scale * 0.5F : 1.0F;
    loss.good_steps = 0;
    ++loss.overflows;
  } else if (++loss.good_steps == LossScale::growth_interval) {
    if (loss.scale < largest) loss.scale *= 2.0F;
    loss.good_steps = 0;
  }
}

/// Fills control.state from control.host, the step's summed loss and, where the rules measure, the
/// sum of squares of the gradients as backward left them. A sum in double of squares of floats is
/// finite exactly where all of them are.
///
/// For hosts and devices: a template, since only templates may be constexpr and call what is not.
template <typename Real = double>
constexpr void decide_step(const StepRules& rules, float loss, Real square_sum,
                           StepControl& control) {
  const HostControl& host = control.host;
  StepState& state = control.state;
  if (!std::isfinite(loss)) state.failed = 1;
  const bool overflow = rules.loss_scaling && !std::isfinite(square_sum);
  state.skip = state.failed != 0 || overflow ? 1 : 0;

  const float scale = host.gradient_scale / state.loss_scale.scale;
  state.factor = scale;
  state.norm = 0.0;
  if (rules.measures()) state.norm = std::sqrt(square_sum) * static_cast<Real>(scale);
  if (rules.clip_norm > 0.0) {
    state.factor *= static_cast<float>(clip_factor(state.norm, rules.clip_norm));
  }

  // Updates that were skipped for the loss scale do not count, as in torch.
  const std::int64_t counted = host.update - state.loss_scale.overflows;
  const auto t = static_cast<Real>(counted > 1 ? counted : 1);
  const Real correction1 = 1.0 - std::pow(static_cast<Real>(host.beta1), t);
  const Real correction2 = 1.0 - std::pow(static_cast<Real>(host.beta2), t);
  state.step_size = static_cast<float>(static_cast<Real>(host.learning_rate) / correction1);
  state.inverse_root_correction = static_cast<float>(1.0 / std::sqrt(correction2));

  if (rules.loss_scaling && state.failed == 0) follow_gradients(state.loss_scale, !overflow);
}

}  // namespace tandem
