#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "optim/adamw.h"
#include "optim/average_kernels.h"
#include "optim/lars.h"
#include "optim/sgd.h"
#include "optim/small_arena.h"
#include "optim/step_controller.h"

namespace tandem {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// A controller on the CPU, and the state after one step of gradients and a loss.
struct Controlled {
  AnyContext context = CpuContext(2);
  StepController controller;
  std::vector<float> gradients = random_values("gradients");

  explicit Controlled(const StepRules& rules) : controller(context, slices, rules) {}

  StepState after(float loss, const HostControl& host = {}) {
    controller.write(host);
    controller.prepare(Tensor(&loss, {1}), view(gradients));
    return controller.state();
  }
};

double norm_of(const std::vector<float>& values) {
  double sum = 0.0;
  for (const ParameterGroupSlice& slice : slices) {
    for (std::int64_t i = slice.offset; i < slice.offset + slice.elements; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      sum += value * value;
    }
  }
  return std::sqrt(sum);
}

TEST(StepControl, ScalesByTheMeanAlone) {
  Controlled step({});
  step.gradients[5] = infinity;  // nobody looks at it
  const StepState state = step.after(1.5F, {.gradient_scale = 0.125F});
  EXPECT_EQ(state.factor, 0.125F);
  EXPECT_EQ(state.norm, 0.0);
  EXPECT_EQ(state.skip, 0);
  EXPECT_EQ(state.loss_scale.scale, 1.0F);
}

TEST(StepControl, ClipsTheMeanGradientByItsNorm) {
  Controlled step({.clip_norm = 1.0});
  const double norm = norm_of(step.gradients) * 0.25;
  StepState state = step.after(1.0F, {.gradient_scale = 0.25F});
  EXPECT_NEAR(state.norm, norm, 1e-10 * norm);
  EXPECT_NEAR(state.factor, 0.25 / (norm + 1e-6), 1e-6 / norm);
  Controlled large({.clip_norm = 1e6});
  EXPECT_EQ(large.after(1.0F, {.gradient_scale = 0.25F}).factor, 0.25F);
}

TEST(StepControl, SkipsFromALossThatIsNotFiniteUntilTheHostClearsIt) {
  for (const float loss : {infinity, -infinity, not_a_number}) {
    Controlled step({.loss_scaling = true});
    EXPECT_EQ(step.after(1.0F).skip, 0);
    EXPECT_EQ(step.after(loss).skip, 1);
    const StepState state = step.after(1.0F);
    EXPECT_EQ(state.skip, 1);
    EXPECT_EQ(state.failed, 1);
    EXPECT_EQ(state.loss_scale.scale, 65536.0F) << "the gradients say nothing then";
    EXPECT_EQ(state.loss_scale.good_steps, 1);
    StepState cleared = state;
    cleared.failed = 0;
    step.controller.set_state(cleared);
    EXPECT_EQ(step.after(1.0F).skip, 0);
  }
}

TEST(StepControl, UnscalesGradientsBeforeItClips) {
  Controlled step({.clip_norm = 1.0, .loss_scaling = true});
  const double norm = norm_of(step.gradients) * 0.5 / 65536.0;
  const StepState state = step.after(1.0F, {.gradient_scale = 0.5F});
  EXPECT_NEAR(state.norm, norm, 1e-10 * norm);
  EXPECT_EQ(state.factor, 0.5F / 65536.0F) << "the norm is " << norm;
  for (float& gradient : step.gradients) gradient *= 65536.0F;
  EXPECT_NEAR(step.after(1.0F, {.gradient_scale = 0.5F}).factor,
              0.5 / 65536.0 / (norm * 65536.0 + 1e-6), 1e-12);
}

/// torch.amp.GradScaler: backoff_factor 0.5, growth_factor 2, growth_interval 2000.
TEST(StepControl, FollowsGradScaler) {
  Controlled step({.loss_scaling = true});
  for (const float bad : {infinity, -infinity, not_a_number}) {
    for (const std::size_t at : {0U, 16384U, 35000U, 35008U, 35040U}) {
      step.controller.set_state({.loss_scale = {.scale = 1024.0F, .good_steps = 7}});
      const float good = std::exchange(step.gradients[at], bad);
      const StepState state = step.after(1.0F);
      step.gradients[at] = good;
      EXPECT_EQ(state.skip, 1) << at;
      EXPECT_EQ(state.failed, 0);
      EXPECT_EQ(state.loss_scale.scale, 512.0F);
      EXPECT_EQ(state.loss_scale.good_steps, 0);
      EXPECT_EQ(state.loss_scale.overflows, 1);
    }
  }
  step.gradients[35002] = infinity;  // between the slices
  EXPECT_EQ(step.after(1.0F).skip, 0);

  step.controller.set_state({.loss_scale = {.scale = 1024.0F}});
  for (int i = 1; i < 2000; ++i) EXPECT_EQ(step.after(1.0F).loss_scale.scale, 1024.0F) << i;
  const StepState grown = step.after(1.0F);
  EXPECT_EQ(grown.loss_scale.scale, 2048.0F);
  EXPECT_EQ(grown.loss_scale.good_steps, 0);
  EXPECT_EQ(grown.factor, 1.0F / 1024.0F) << "this step's losses had the scale before";
}

TEST(StepControl, LossScaleIsAtLeastOneAndFinite) {
  LossScale loss{.scale = 1.0F};
  follow_gradients(loss, false);
  EXPECT_EQ(loss.scale, 1.0F);
  loss = {.scale = 0x1p127F, .good_steps = LossScale::growth_interval - 1};
  follow_gradients(loss, true);
  EXPECT_EQ(loss.scale, 0x1p127F);
  EXPECT_EQ(loss.good_steps, 0);
}

/// Runs two optimizers, one by value and one under a control, over the same steps.
template <typename Rule, typename Options>
void expect_control_is_obeyed(const Options& options) {
  Controlled step({});
  Rule by_value(step.context, arena_elements, slices, options);
  Rule controlled(step.context, arena_elements, slices, options);
  std::vector<float> expected = random_values("parameters");
  std::vector<float> found = expected;
  for (int i = 0; i < 3; ++i) {
    const float rate = 0.1F / static_cast<float>(i + 1);
    by_value.step(view(expected), view(step.gradients),
                  {.learning_rate = rate, .gradient_scale = 0.5F});
    HostControl host{.gradient_scale = 0.5F};
    controlled.fill(host, rate);
    step.after(1.0F, host);
    controlled.step(view(found), view(step.gradients), {.control = step.controller.control()});
    EXPECT_EQ(found, expected) << i;
  }
  step.after(not_a_number);
  controlled.enqueue(view(found), view(step.gradients), {.control = step.controller.control()});
  EXPECT_EQ(found, expected);
  EXPECT_EQ(controlled.steps_taken(), 3);
  controlled.count_step();
  EXPECT_EQ(controlled.steps_taken(), 4);
}

TEST(StepControl, IsObeyedByEveryRule) {
  expect_control_is_obeyed<Sgd>(SgdOptions{});
  expect_control_is_obeyed<Sgd>(SgdOptions{.momentum = 0.9F});
  expect_control_is_obeyed<Sgd>(SgdOptions{.momentum = 0.9F, .nesterov = true});
  expect_control_is_obeyed<AdamW>(AdamWOptions{});
  expect_control_is_obeyed<Lars>(LarsOptions{});
}

TEST(StepControl, DoesNotCountOverflowsAsUpdatesOfAdamW) {
  Controlled step({.loss_scaling = true});
  HostControl host{.learning_rate = 0.1F, .beta1 = 0.9, .beta2 = 0.999, .update = 1};
  const float good = step.gradients[0];
  step.gradients[0] = infinity;
  step.after(1.0F, host);
  step.gradients[0] = good;
  host.update = 2;
  const StepState first = step.after(1.0F, host);
  EXPECT_NEAR(first.step_size, 0.1 / (1.0 - 0.9), 1e-6);
  EXPECT_NEAR(first.inverse_root_correction, 1.0 / std::sqrt(1.0 - 0.999), 1e-5);
  host.update = 3;
  EXPECT_NEAR(step.after(1.0F, host).step_size, 0.1 / (1.0 - 0.81), 1e-6);
}

TEST(StepControl, DecidesOnTheAverage) {
  Controlled step({});
  CpuContext& context = std::get<CpuContext>(step.context);
  const std::vector<float> values{4.0F, 8.0F, 1.0F};
  std::vector<float> average{0.0F, 0.0F, 1.0F};
  step.after(1.0F, {.average_weight = 0.25F});
  average_into(context, 3, 0.5F, values.data(), average.data(), step.controller.control());
  EXPECT_EQ(average, (std::vector<float>{1.0F, 2.0F, 1.0F}));
  step.after(infinity, {.average_weight = 0.25F});
  average_into(context, 3, 0.5F, values.data(), average.data(), step.controller.control());
  EXPECT_EQ(average, (std::vector<float>{1.0F, 2.0F, 1.0F}));
}

TEST(StepControl, RejectsWhatDoesNotFit) {
  AnyContext context = CpuContext(1);
  EXPECT_THROW(StepController(context, slices, {.clip_norm = -1.0}), Error);
  Sgd sgd(context, arena_elements, slices, {});
  std::vector<float> parameters = random_values("parameters");
  std::vector<std::uint16_t> weights(arena_elements);
  const Tensor rounded(weights.data(), {arena_elements}, DType::bf16);
  EXPECT_THROW(sgd.step(view(parameters), view(parameters), {.weights = rounded}), Error);
  EXPECT_NO_THROW(sgd.step(view(parameters), view(parameters), {.weights = view(parameters)}));
}

}  // namespace
}  // namespace tandem
