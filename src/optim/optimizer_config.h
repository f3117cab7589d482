#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "optim/adamw.h"
#include "optim/lars.h"
#include "optim/optimizer.h"
#include "optim/sgd.h"

namespace tandem {

class ConfigTable;

/// The [optimizer] table of a run file. Defaults are torch.optim's where torch has the rule.
///
///     kind = "sgd"                 # required; or "adamw", "lars"
///     lr = 0.1                     # required, > 0: for the run's global batch
///     weight_decay = 5e-4          # default 0; adamw: 0.01
///     decay_norm_and_bias = false  # default true; false: norm and bias parameters do not decay
///     clip_norm = 1.0              # default 0, none: largest global norm of the gradients
///     momentum = 0.9               # sgd: default 0, lars: default 0.9; below 1
///     nesterov = true              # sgd: default false; needs momentum
///     betas = [0.9, 0.999]         # adamw
///     epsilon = 1e-8               # adamw
///     trust_coefficient = 0.001    # lars
///     adapt_norm_and_bias = false  # lars: default true; false: norm and bias parameters have lr
struct OptimizerConfig {
  double learning_rate = 0.0;
  double weight_decay = 0.0;
  bool decay_norm_and_bias = true;
  bool adapt_norm_and_bias = true;
  /// 0: gradients are not clipped.
  double clip_norm = 0.0;
  /// Decides the kind.
  std::variant<SgdOptions, AdamWOptions, LarsOptions> rule;

  /// How one parameter is updated; `norm_or_bias` says whether it is a norm's or a bias.
  ParameterGroupSlice slice(std::int64_t offset, std::int64_t elements, bool norm_or_bias) const;
};

/// Reads the table; keys that its kind does not know are left to ConfigTable::finish(). Throws
/// InputError.
OptimizerConfig read_optimizer_config(const ConfigTable& table);

/// The optimizer that `config` names. The slices are made by OptimizerConfig::slice(); the context
/// outlives what is returned.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, AnyContext& context,
                                          std::int64_t arena_elements,
                                          std::span<const ParameterGroupSlice> slices);

}  // namespace tandem
