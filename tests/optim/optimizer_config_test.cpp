#include "optim/optimizer_config.h"

#include <gtest/gtest.h>

#include "base/config_table.h"
#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

OptimizerConfig read(std::string_view text) {
  return read_optimizer_config(ConfigTable::from_text(text, "run.toml").table("optimizer"));
}

std::string rejected(std::string_view text) {
  return message_of<InputError>([&] { read(text); });
}

TEST(OptimizerConfig, ReadsEveryKey) {
  const OptimizerConfig config = read(
      "[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentum = 0.9\nnesterov = true\n"
      "weight_decay = 5e-4\ndecay_norm_and_bias = false\n");
  EXPECT_EQ(config.kind, "sgd");
  EXPECT_EQ(config.learning_rate, 0.1);
  EXPECT_EQ(config.momentum, 0.9);
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.weight_decay, 5e-4);
  EXPECT_EQ(config.decay_of(false), 5e-4F);
  EXPECT_EQ(config.decay_of(true), 0.0F);
}

TEST(OptimizerConfig, DefaultsAreTorchs) {
  const OptimizerConfig config = read("[optimizer]\nkind = 'sgd'\nlr = 1\nweight_decay = 0.25\n");
  EXPECT_EQ(config.learning_rate, 1.0);
  EXPECT_EQ(config.momentum, 0.0);
  EXPECT_FALSE(config.nesterov);
  EXPECT_EQ(config.decay_of(true), 0.25F);
  EXPECT_EQ(config.decay_of(false), 0.25F);
}

TEST(OptimizerConfig, NamesWhatIsWrong) {
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentun = 0.9\n"),
            "run.toml:4: optimizer.momentun: unknown key (did you mean 'momentum'?); known here: "
            "decay_norm_and_bias, kind, lr, momentum, nesterov, weight_decay");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sdg'\nlr = 0.1\n"),
            "run.toml:2: optimizer.kind: 'sdg' is not one of sgd (did you mean 'sgd'?)");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\n"),
            "run.toml:1: optimizer.lr: missing; expected a number");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0\n"),
            "run.toml:3: optimizer.lr: expected a learning rate above 0");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentum = 1\n"),
            "run.toml:4: optimizer.momentum: expected a momentum below 1");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nnesterov = true\n"),
            "run.toml:4: optimizer.nesterov: Nesterov's rule needs momentum; set momentum = 0.9 or "
            "leave this out");
}

TEST(OptimizerConfig, MakesTheOptimizerItNames) {
  AnyContext context = CpuContext(1);
  OptimizerConfig config = read("[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentum = 0.5\n");
  const std::vector<ParameterGroupSlice> slices{{0, 4, 0.0F}};
  const std::unique_ptr<Optimizer> made = make_optimizer(config, context, 4, slices);
  EXPECT_EQ(made->kind(), "sgd");
  EXPECT_EQ(made->state().size(), 1U);
  config.kind = "other";
  EXPECT_THROW(make_optimizer(config, context, 4, slices), Error);
}

}  // namespace
}  // namespace tandem
