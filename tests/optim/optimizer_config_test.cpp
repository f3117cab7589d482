#include "optim/optimizer_config.h"

#include <gtest/gtest.h>

#include "base/config_table.h"
#include "base/error.h"
#include "support/message.h"

namespace tandem {
namespace {

OptimizerConfig read(std::string_view text) {
  const ConfigTable root = ConfigTable::from_text(text, "run.toml");
  OptimizerConfig config = read_optimizer_config(root.table("optimizer"));
  root.finish();
  return config;
}

std::string rejected(std::string_view text) {
  return message_of<InputError>([&] { read(text); });
}

TEST(OptimizerConfig, ReadsEveryKeyOfSgd) {
  const OptimizerConfig config = read(
      "[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentum = 0.9\nnesterov = true\n"
      "weight_decay = 5e-4\ndecay_norm_and_bias = false\nclip_norm = 2.5\n");
  EXPECT_EQ(config.learning_rate, 0.1);
  EXPECT_EQ(std::get<SgdOptions>(config.rule).momentum, 0.9F);
  EXPECT_TRUE(std::get<SgdOptions>(config.rule).nesterov);
  EXPECT_EQ(config.weight_decay, 5e-4);
  EXPECT_EQ(config.clip_norm, 2.5);
  const ParameterGroupSlice weight = config.slice(16, 5, false);
  EXPECT_EQ(weight.offset, 16);
  EXPECT_EQ(weight.elements, 5);
  EXPECT_EQ(weight.weight_decay, 5e-4F);
  EXPECT_EQ(config.slice(0, 1, true).weight_decay, 0.0F);
}

TEST(OptimizerConfig, ReadsEveryKeyOfAdamW) {
  const OptimizerConfig config = read(
      "[optimizer]\nkind = 'adamw'\nlr = 0.1\nbetas = [0.5, 0.75]\nepsilon = 1e-3\n"
      "weight_decay = 0.25\ndecay_norm_and_bias = true\n");
  EXPECT_EQ(std::get<AdamWOptions>(config.rule).beta1, 0.5);
  EXPECT_EQ(std::get<AdamWOptions>(config.rule).beta2, 0.75);
  EXPECT_EQ(std::get<AdamWOptions>(config.rule).epsilon, 1e-3);
  EXPECT_EQ(config.slice(0, 1, true).weight_decay, 0.25F);
}

TEST(OptimizerConfig, ReadsEveryKeyOfLars) {
  const OptimizerConfig config = read(
      "[optimizer]\nkind = 'lars'\nlr = 0.1\nmomentum = 0.5\ntrust_coefficient = 0.02\n"
      "adapt_norm_and_bias = false\n");
  EXPECT_EQ(std::get<LarsOptions>(config.rule).momentum, 0.5F);
  EXPECT_EQ(std::get<LarsOptions>(config.rule).trust_coefficient, 0.02F);
  EXPECT_TRUE(config.slice(0, 1, false).adapt);
  EXPECT_FALSE(config.slice(0, 1, true).adapt);
}

TEST(OptimizerConfig, DefaultsAreTorchs) {
  const OptimizerConfig sgd = read("[optimizer]\nkind = 'sgd'\nlr = 1\n");
  EXPECT_EQ(sgd.learning_rate, 1.0);
  EXPECT_EQ(std::get<SgdOptions>(sgd.rule).momentum, 0.0F);
  EXPECT_FALSE(std::get<SgdOptions>(sgd.rule).nesterov);
  EXPECT_EQ(sgd.weight_decay, 0.0);
  EXPECT_EQ(sgd.clip_norm, 0.0);
  const OptimizerConfig adamw = read("[optimizer]\nkind = 'adamw'\nlr = 1\n");
  EXPECT_EQ(std::get<AdamWOptions>(adamw.rule).beta1, 0.9);
  EXPECT_EQ(std::get<AdamWOptions>(adamw.rule).beta2, 0.999);
  EXPECT_EQ(std::get<AdamWOptions>(adamw.rule).epsilon, 1e-8);
  EXPECT_EQ(adamw.weight_decay, 0.01);
  EXPECT_EQ(adamw.slice(0, 1, true).weight_decay, 0.01F);
  const OptimizerConfig lars = read("[optimizer]\nkind = 'lars'\nlr = 1\n");
  EXPECT_EQ(std::get<LarsOptions>(lars.rule).momentum, 0.9F);
  EXPECT_EQ(std::get<LarsOptions>(lars.rule).trust_coefficient, 0.001F);
  EXPECT_TRUE(lars.slice(0, 1, true).adapt);
}

TEST(OptimizerConfig, NamesWhatIsWrong) {
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentun = 0.9\n"),
            "run.toml:4: optimizer.momentun: unknown key (did you mean 'momentum'?); known here: "
            "clip_norm, decay_norm_and_bias, kind, lr, momentum, nesterov, weight_decay");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sdg'\nlr = 0.1\n"),
            "run.toml:2: optimizer.kind: 'sdg' is not one of sgd, adamw, lars (did you mean "
            "'sgd'?)");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\n"),
            "run.toml:1: optimizer.lr: missing; expected a number");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0\n"),
            "run.toml:3: optimizer.lr: 0 is out of range; expected more than 0, at most 1000000");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nmomentum = 1\n"),
            "run.toml:4: optimizer.momentum: 1 is out of range; expected 0 or more, less than 1");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'sgd'\nlr = 0.1\nnesterov = true\n"),
            "run.toml:4: optimizer.nesterov: Nesterov's rule needs momentum; set momentum = 0.9 or "
            "leave this out");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'adamw'\nlr = 0.1\nbetas = [0.9, 1]\n"),
            "run.toml:4: optimizer.betas: expected two numbers, at least 0 and below 1, as [0.9, "
            "0.999]");
  EXPECT_EQ(
      rejected("[optimizer]\nkind = 'adamw'\nlr = 0.1\nepsilon = 0\n"),
      "run.toml:4: optimizer.epsilon: 0 is out of range; expected more than 0, at most 1000000");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'lars'\nlr = 0.1\ntrust_coefficient = 0\n"),
            "run.toml:4: optimizer.trust_coefficient: 0 is out of range; expected more than 0, at "
            "most 1000000");
  EXPECT_EQ(rejected("[optimizer]\nkind = 'lars'\nlr = 0.1\nnesterov = true\n"),
            "run.toml:4: optimizer.nesterov: unknown key; known here: adapt_norm_and_bias, "
            "clip_norm, decay_norm_and_bias, kind, lr, momentum, trust_coefficient, weight_decay");
}

TEST(OptimizerConfig, MakesTheOptimizerItNames) {
  AnyContext context = CpuContext(1);
  const std::vector<ParameterGroupSlice> slices{{0, 4, 0.0F}};
  for (const auto& [kind, states] : {std::pair{"sgd", 0U}, {"adamw", 2U}, {"lars", 1U}}) {
    const OptimizerConfig config =
        read(std::string("[optimizer]\nlr = 0.1\nkind = '") + kind + "'\n");
    const std::unique_ptr<Optimizer> made = make_optimizer(config, context, 4, slices);
    EXPECT_EQ(made->kind(), kind);
    EXPECT_EQ(made->state().size(), states);
  }
}

}  // namespace
}  // namespace tandem
