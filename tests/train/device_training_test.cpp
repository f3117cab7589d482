#include <gtest/gtest.h>

#include <limits>

#include "device/open_context.h"
#include "train/checkpoints/run_checkpoints.h"
#include "train/device_run.h"
#include "train/scratch.h"

// Whole training on a GPU: as on the CPU in every recipe, failures told, and resumed to the bit.

namespace tandem {
namespace {

constexpr int steps = 10;

AnyContext cpu() { return AnyContext(std::in_place_type<CpuContext>, 1); }

struct Recipe {
  std::string name;
  std::vector<std::string> settings;
  double losses = 1e-3;   ///< largest relative difference of a step's loss
  double weights = 1e-3;  ///< see distance()
};

/// Rounding alone, in ten steps of a model without a kink.
std::vector<Recipe> recipes() {
  return {
      {"sgd", {}},
      {"nesterov",
       {"optimizer.nesterov=true", "optimizer.weight_decay=1e-2", "optimizer.clip_norm=0.5"}},
      {"plain_sgd", {"optimizer.momentum=0.0", "train.label_smoothing=0.1"}},
      // The first updates are of about the rate's size whatever the gradient's, noise too.
      {"adamw", {"optimizer.kind=\"adamw\"", "optimizer.lr=1e-3"}, 1e-3, 5e-3},
      {"adamw_accumulated",
       {"optimizer.kind=\"adamw\"", "optimizer.lr=1e-3", "train.accumulate=2",
        "optimizer.clip_norm=0.5", "train.ema_decay=0.9"},
       1e-3,
       5e-3},
      {"lars", {"optimizer.kind=\"lars\"", "optimizer.lr=2.0", "optimizer.weight_decay=1e-4"}},
      {"ema", {"train.ema_decay=0.8", "train.ema_warmup=true"}},
      {"accumulated", {"train.accumulate=2", "train.ema_decay=0.8"}},
      {"frozen", {"train.freeze=[\"conv1\", \"bn1\", \"layer2\"]"}},
      {"frozen_but_for_statistics",
       {"train.freeze=[\"layer1\"]", "train.freeze_statistics=false", "train.accumulate=2"}},
      {"mixup", {"data.augment.mixup=0.4", "train.label_smoothing=0.1"}},
      {"cutmix", {"data.augment.cutmix=1.0", "train.accumulate=2"}},
      {"mixup_or_cutmix", {"data.augment.mixup=0.4", "data.augment.cutmix=1.0"}},
      {"augmented",
       {"data.augment.crop_padding=2", "data.augment.flip=true", "data.augment.random_erasing=0.5",
        "data.channels=3"}},
      {"dropout", {"model.dropout=0.4"}},
      {"dropout_accumulated", {"model.dropout=0.4", "train.accumulate=2"}},
  };
}

void expect_close(const std::vector<double>& found, const std::vector<double>& expected,
                  double tolerance, const char* what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], expected[i], tolerance * std::abs(expected[i]))
        << what << " of step " << i + 1;
  }
}

class DeviceTraining : public testing::TestWithParam<Recipe> {};

TEST_P(DeviceTraining, GoesAsOnTheCpu) {
  const Recipe& recipe = GetParam();
  const RunConfig config = run_with(recipe.settings);
  AnyContext host = cpu();
  AnyContext gpu = open_gpu(0);
  SmallTraining expected(config, host);
  SmallTraining found(config, gpu);
  const std::vector<float> start = found.weights();
  EXPECT_EQ(start, expected.weights());
  ASSERT_TRUE(expected.run(steps));
  ASSERT_TRUE(found.run(steps));
  ASSERT_EQ(found.losses().size(), static_cast<std::size_t>(steps));
  expect_close(found.losses(), expected.losses(), recipe.losses, "the loss");
  expect_close(found.norms(), expected.norms(), recipe.losses, "the gradient's norm");
  EXPECT_LT(distance(found.weights(), expected.weights()), recipe.weights);
  EXPECT_LT(distance(found.statistics(), expected.statistics()), recipe.weights);
  EXPECT_LT(distance(found.optimizer_state(), expected.optimizer_state()), 10 * recipe.weights);
  EXPECT_LT(distance(found.average(), expected.average()), recipe.weights);
  // The comparison sees what the steps did.
  EXPECT_GT(distance(found.weights(), start), 4 * recipe.weights);
  EXPECT_EQ(found.replica().optimizer().steps_taken(), steps);
}

INSTANTIATE_TEST_SUITE_P(Recipes, DeviceTraining, testing::ValuesIn(recipes()),
                         [](const auto& each) { return each.param.name; });

TEST(DeviceTrainingPrecision, IsAboutAsOnTheCpu) {
  const RunConfig exact = run_with({});
  AnyContext host = cpu();
  SmallTraining expected(exact, host);
  ASSERT_TRUE(expected.run(steps));
  for (const char* precision : {"tf32", "bf16", "fp16"}) {
    AnyContext gpu = open_gpu(0);
    SmallTraining found(run_with({"train.precision=\"" + std::string(precision) + "\""}), gpu);
    ASSERT_TRUE(found.run(steps)) << precision;
    expect_close(found.losses(), expected.losses(), 0.05, precision);
  }
}

TEST(DeviceTrainingRepeats, ToTheBit) {
  const RunConfig config = run_with({"train.accumulate=2", "model.dropout=0.4",
                                     "train.precision=\"bf16\"", "data.augment.mixup=0.4"});
  AnyContext gpu = open_gpu(0);
  SmallTraining first(config, gpu);
  SmallTraining second(config, gpu);
  ASSERT_TRUE(first.run(steps));
  ASSERT_TRUE(second.run(steps));
  EXPECT_EQ(first.losses(), second.losses());
  EXPECT_TRUE(same_bits(first.weights(), second.weights()));
  EXPECT_TRUE(same_bits(first.statistics(), second.statistics()));
}

TEST(DeviceTrainingFailure, NamesImagesThatAreNotFinite) {
  AnyContext gpu = open_gpu(0);
  for (const char* accumulate : {"train.accumulate=1", "train.accumulate=2"}) {
    SmallTraining run(run_with({accumulate}), gpu, [](InputSpec& spec) {
      spec.normalization.scale[0] = std::numeric_limits<float>::quiet_NaN();
    });
    const std::vector<float> before = run.weights();
    EXPECT_FALSE(run.run(steps));
    EXPECT_EQ(run.failed_step(), 1);
    EXPECT_EQ(run.replica().explain_non_finite_loss(), "first so are images of the batch");
    EXPECT_TRUE(same_bits(run.weights(), before));
  }
}

// The step after the failing one is under way when that is known, and must change nothing either.
TEST(DeviceTrainingFailure, LeavesTheWeightsAsTheyWereBeforeTheStep) {
  RunConfig config = run_with({"train.ema_decay=0.5"});
  // The weights of the first update are finite, products of two of them are not.
  config.optimizer.learning_rate = 1e30;
  AnyContext gpu = open_gpu(0);
  SmallTraining failing(config, gpu);
  EXPECT_FALSE(failing.run(steps));
  EXPECT_EQ(failing.failed_step(), 2);
  const std::string cause = failing.replica().explain_non_finite_loss();
  EXPECT_EQ(cause.rfind("first so is the output of layer '", 0), 0U) << cause;
  SmallTraining before(config, gpu);
  ASSERT_TRUE(before.run(1));
  EXPECT_TRUE(same_bits(failing.weights(), before.weights()));
  EXPECT_TRUE(same_bits(failing.optimizer_state(), before.optimizer_state()));
}

class DeviceResume : public ScratchTest {
 protected:
  static constexpr int stop = 4;

  /// Stops after a few steps, goes on from the checkpoint, and compares with a run that went on.
  /// Returns the loss scale at the end; `scale` is the one at the start.
  LossScale expect_same(const std::string& name, const std::vector<std::string>& settings,
                        const std::optional<LossScale>& scale = {}) {
    SCOPED_TRACE(name);
    const RunConfig config = run_with(settings);
    AnyContext gpu = open_gpu(0);
    SmallTraining whole(config, gpu);
    if (scale) whole.replica().set_loss_scale(*scale);
    EXPECT_TRUE(whole.run(steps));

    RunCheckpoints written({.folder = path(name), .resume = false, .resume_from = {}}, config);
    SmallTraining first(config, gpu);
    if (scale) first.replica().set_loss_scale(*scale);
    EXPECT_TRUE(first.run(stop));
    TrainingPosition position = first.position();
    position.step = stop;
    written.open(position);
    written.begin(first.replica(), position, false);
    written.wait({}, [] {});

    RunCheckpoints found({.folder = path(name), .resume = true, .resume_from = {}}, config);
    SmallTraining second(config, gpu);
    EXPECT_EQ(found.start(second.replica(), second.position()).step, stop);
    second.replica().broadcast_from_root();
    EXPECT_TRUE(second.run(steps - stop));
    EXPECT_TRUE(same_bits(second.weights(), whole.weights()));
    EXPECT_TRUE(same_bits(second.statistics(), whole.statistics()));
    EXPECT_TRUE(same_bits(second.optimizer_state(), whole.optimizer_state()));
    EXPECT_TRUE(same_bits(second.average(), whole.average()));
    std::vector<double> losses = first.losses();
    losses.insert(losses.end(), second.losses().begin(), second.losses().end());
    EXPECT_EQ(losses, whole.losses());
    const auto expected_scale = whole.replica().loss_scale();
    const auto found_scale = second.replica().loss_scale();
    EXPECT_EQ(found_scale.has_value(), expected_scale.has_value());
    if (!found_scale || !expected_scale) return {};
    EXPECT_EQ(found_scale->scale, expected_scale->scale);
    EXPECT_EQ(found_scale->good_steps, expected_scale->good_steps);
    EXPECT_EQ(found_scale->overflows, expected_scale->overflows);
    return *found_scale;
  }
};

TEST_F(DeviceResume, IsBitEqual) {
  expect_same("sgd", {"train.accumulate=2", "train.ema_decay=0.8", "model.dropout=0.4"});
  expect_same("adamw", {"train.precision=\"bf16\"", "optimizer.kind=\"adamw\"", "optimizer.lr=1e-3",
                        "data.augment.mixup=0.4"});
  expect_same("lars", {"optimizer.kind=\"lars\"", "optimizer.lr=2.0", "optimizer.clip_norm=0.5"});
}

const std::vector<std::string> half{"train.precision=\"fp16\"", "optimizer.kind=\"adamw\"",
                                    "optimizer.lr=1e-3", "train.ema_decay=0.8"};

TEST_F(DeviceResume, KeepsALossScaleThatGrows) {
  // After the checkpoint, by good steps before it and behind it.
  const LossScale end = expect_same(
      "growing", half, LossScale{.scale = 256.0F, .good_steps = LossScale::growth_interval - 6});
  EXPECT_EQ(end.scale, 512.0F);
  EXPECT_EQ(end.good_steps, steps - 6);
}

TEST_F(DeviceResume, KeepsALossScaleThatShrinks) {
  // The first gradients do not fit f16: their steps are skipped, and AdamW does not count them.
  const LossScale end = expect_same("shrinking", half, LossScale{.scale = 0x1p24F});
  EXPECT_GE(end.overflows, 3);
  EXPECT_EQ(end.scale, std::ldexp(1.0F, 24 - static_cast<int>(end.overflows)));
}

}  // namespace
}  // namespace tandem
