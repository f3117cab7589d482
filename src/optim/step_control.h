#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace tandem {

/// What the host decides for one optimizer step. It is copied to StepControl::host before the step
/// runs; a captured step, launched again with the arguments that it was captured with, reads there
/// whatever changes from step to step.
struct HostControl {
  float learning_rate = 0.0F;
  /// 1 / (ranks * micro-batches): makes the mean over all of them of the summed gradients.
  float gradient_scale = 1.0F;
  /// What the weights' moving average takes of the new weights: 1 - decay.
  float average_weight = 0.0F;
  /// AdamW's decay rates; 0 with other rules.
  double beta1 = 0.0;
  double beta2 = 0.0;
  /// Number of this update, from 1, those that were skipped included.
  std::int64_t update = 1;
  /// For StepRandom::base_on_device: place in the run's sequence of samples of this rank's first.
  std::uint64_t first_sample = 0;
};

/// The dynamic loss scale: losses are multiplied by it in front of the backward pass, so that
/// gradients do not vanish in f16. torch.amp.GradScaler's rule with its defaults: times 2 after
/// 2000 good steps in a row; after a step whose gradients are not all finite, half, at least 1.
struct LossScale {
  static constexpr float first = 65536.0F;
  static constexpr std::int32_t growth_interval = 2000;

  float scale = 1.0F;
  std::int32_t good_steps = 0;  ///< since the scale last changed
  std::int64_t overflows = 0;   ///< updates skipped for it so far
};

/// What prepare_update() finds out and decides, for the kernels behind it and for the host to read
/// when the step is done.
struct StepState {
  /// Stays as it is where losses are not scaled.
  LossScale loss_scale;
  /// Global norm of the step's gradient before it was clipped, not finite where that is not; 0
  /// where neither clipping nor loss scaling asks for it.
  double norm = 0.0;
  /// What gradients are multiplied by: gradient_scale, clipping and the loss scale's inverse.
  float factor = 1.0F;
  float step_size = 0.0F;                ///< AdamW's learning_rate / (1 - beta1^t)
  float inverse_root_correction = 1.0F;  ///< AdamW's 1 / sqrt(1 - beta2^t)
  std::int32_t skip = 0;                 ///< not 0: the update must change nothing
  /// Not 0: a loss was not finite. That and all later updates are skipped until the host clears it.
  std::int32_t failed = 0;
};

/// What of a step lies in the context's memory because it changes from step to step. Kernels behind
/// prepare_update() read it: updates, averages; the loss reads the scale that the step before left.
struct StepControl {
  HostControl host;
  StepState state;
};
static_assert(std::is_trivially_copyable_v<StepControl> && std::is_standard_layout_v<StepControl>);

/// Whether an update under `control` (null: none) must change nothing.
constexpr bool skips(const StepControl* control) {
  return control != nullptr && control->state.skip != 0;
}

/// Puts what `control` says, unless null, in place of an update's own values.
constexpr void follow(const StepControl* control, float& learning_rate, float& gradient_scale) {
  if (control == nullptr) return;
  learning_rate = control->host.learning_rate;
  gradient_scale = control->state.factor;
}

}  // namespace tandem
