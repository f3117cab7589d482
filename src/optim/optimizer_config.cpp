#include "optim/optimizer_config.h"

#include <vector>

#include "base/config_table.h"
#include "base/error.h"
#include "optim/sgd.h"

namespace tandem {
namespace {

constexpr double largest_rate = 1e6;

const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all{"sgd"};
  return all;
}

}  // namespace

float OptimizerConfig::decay_of(bool norm_or_bias) const {
  return norm_or_bias && !decay_norm_and_bias ? 0.0F : static_cast<float>(weight_decay);
}

OptimizerConfig read_optimizer_config(const ConfigTable& table) {
  OptimizerConfig config;
  config.kind = table.get_choice("kind", kinds());
  config.learning_rate = table.get_real("lr", 0.0, largest_rate);
  if (config.learning_rate == 0.0) table.fail("lr", "expected a learning rate above 0");
  config.momentum = table.get_real_or("momentum", 0.0, 0.0, 1.0);
  if (config.momentum == 1.0) table.fail("momentum", "expected a momentum below 1");
  config.nesterov = table.get_bool_or("nesterov", false);
  if (config.nesterov && config.momentum == 0.0) {
    table.fail("nesterov", "Nesterov's rule needs momentum; set momentum = 0.9 or leave this out");
  }
  config.weight_decay = table.get_real_or("weight_decay", 0.0, 0.0, 1.0);
  config.decay_norm_and_bias = table.get_bool_or("decay_norm_and_bias", true);
  table.finish();
  return config;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, AnyContext& context,
                                          std::int64_t arena_elements,
                                          std::span<const ParameterGroupSlice> slices) {
  TANDEM_CHECK(config.kind == "sgd", "no optimizer of kind '{}'", config.kind);
  const SgdOptions options{.momentum = static_cast<float>(config.momentum),
                           .nesterov = config.nesterov};
  return std::make_unique<Sgd>(context, arena_elements, slices, options);
}

}  // namespace tandem
