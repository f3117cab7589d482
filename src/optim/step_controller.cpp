#include "optim/step_controller.h"

#include "base/error.h"
#include "optim/step_control_kernels.h"

namespace tandem {

StepController::StepController(AnyContext& context, std::span<const ParameterGroupSlice> slices,
                               const StepRules& rules)
    : context_(&context),
      rules_(rules),
      blocks_(context, slices),
      block_sums_(context, blocks_.rows().size(), "the gradients' norms"),
      control_(context, 1, "the step's control") {
  TANDEM_CHECK(rules.clip_norm >= 0.0, "gradients clipped to a norm of {}", rules.clip_norm);
  StepState state;
  if (rules.loss_scaling) state.loss_scale.scale = LossScale::first;
  write({});
  set_state(state);
}

void StepController::prepare(const Tensor& statistics, const Tensor& gradients) {
  const UpdatePreparation preparation{.rules = rules_,
                                      .loss = statistics.data<float>(),
                                      .blocks = blocks_.rows(),
                                      .gradients = gradients.data<float>(),
                                      .block_sums = block_sums_.rows(),
                                      .control = control()};
  std::visit([&](auto& device) { prepare_update(device, preparation); }, *context_);
}

void StepController::write(const HostControl& host) {
  copy_to_device(*context_, &host, sizeof(host), &control()->host);
}

StepState StepController::state() const {
  StepState state;
  copy_to_host(*context_, &control()->state, sizeof(state), &state);
  return state;
}

void StepController::set_state(const StepState& state) {
  copy_to_device(*context_, &state, sizeof(state), &control()->state);
}

}  // namespace tandem
