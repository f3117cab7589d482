#include "optim/optimizer_config.h"

#include <fmt/format.h>

#include <vector>

#include "base/config_table.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr double large = 1e6;

float read_momentum(const ConfigTable& table, double fallback) {
  const double momentum = table.get_real_or("momentum", fallback, 0.0, 1.0, Ends::low);
  const auto rounded = static_cast<float>(momentum);
  if (rounded == 1.0F) {
    table.fail("momentum", fmt::format("{} is 1 in single precision; expected less", momentum));
  }
  return rounded;
}

SgdOptions read_sgd(const ConfigTable& table) {
  SgdOptions options;
  options.momentum = read_momentum(table, 0.0);
  options.nesterov = table.get_bool_or("nesterov", false);
  if (options.nesterov && options.momentum == 0.0F) {
    table.fail("nesterov", "Nesterov's rule needs momentum; set momentum = 0.9 or leave this out");
  }
  return options;
}

AdamWOptions read_adamw(const ConfigTable& table) {
  AdamWOptions options;
  const std::vector<double> betas =
      table.get_reals_or("betas", std::vector<double>{options.beta1, options.beta2});
  const auto fits = [](double beta) { return beta >= 0.0 && beta < 1.0; };
  if (betas.size() != 2 || !fits(betas[0]) || !fits(betas[1])) {
    table.fail("betas", "expected two numbers, at least 0 and below 1, as [0.9, 0.999]");
  }
  options.beta1 = betas[0];
  options.beta2 = betas[1];
  options.epsilon = table.get_real_or("epsilon", options.epsilon, 0.0, large, Ends::high);
  return options;
}

LarsOptions read_lars(const ConfigTable& table, OptimizerConfig& config) {
  LarsOptions options;
  options.momentum = read_momentum(table, 0.9);
  options.trust_coefficient =
      static_cast<float>(table.get_real_or("trust_coefficient", 0.001, 0.0, large, Ends::high));
  config.adapt_norm_and_bias = table.get_bool_or("adapt_norm_and_bias", true);
  return options;
}

std::unique_ptr<Optimizer> make(const SgdOptions& options, AnyContext& context,
                                std::int64_t elements,
                                std::span<const ParameterGroupSlice> slices) {
  return std::make_unique<Sgd>(context, elements, slices, options);
}

std::unique_ptr<Optimizer> make(const AdamWOptions& options, AnyContext& context,
                                std::int64_t elements,
                                std::span<const ParameterGroupSlice> slices) {
  return std::make_unique<AdamW>(context, elements, slices, options);
}

std::unique_ptr<Optimizer> make(const LarsOptions& options, AnyContext& context,
                                std::int64_t elements,
                                std::span<const ParameterGroupSlice> slices) {
  return std::make_unique<Lars>(context, elements, slices, options);
}

}  // namespace

ParameterGroupSlice OptimizerConfig::slice(std::int64_t offset, std::int64_t elements,
                                           bool norm_or_bias) const {
  return {.offset = offset,
          .elements = elements,
          .weight_decay =
              norm_or_bias && !decay_norm_and_bias ? 0.0F : static_cast<float>(weight_decay),
          .adapt = !norm_or_bias || adapt_norm_and_bias};
}

OptimizerConfig read_optimizer_config(const ConfigTable& table) {
  static const std::vector<std::string> kinds{"sgd", "adamw", "lars"};
  constexpr double adamw_decay = 0.01;
  OptimizerConfig config;
  const std::string kind = table.get_choice("kind", kinds);
  config.learning_rate = table.get_real("lr", 0.0, large, Ends::high);
  config.weight_decay =
      table.get_real_or("weight_decay", kind == "adamw" ? adamw_decay : 0.0, 0.0, 1.0);
  config.decay_norm_and_bias = table.get_bool_or("decay_norm_and_bias", true);
  config.clip_norm = table.get_real_or("clip_norm", 0.0, 0.0, 1e12);
  if (kind == "adamw") {
    config.rule = read_adamw(table);
  } else if (kind == "lars") {
    config.rule = read_lars(table, config);
  } else {
    config.rule = read_sgd(table);
  }
  return config;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, AnyContext& context,
                                          std::int64_t arena_elements,
                                          std::span<const ParameterGroupSlice> slices) {
  return std::visit(
      [&](const auto& options) { return make(options, context, arena_elements, slices); },
      config.rule);
}

}  // namespace tandem
