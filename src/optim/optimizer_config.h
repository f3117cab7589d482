#pragma once

#include <memory>
#include <span>
#include <string>

#include "optim/optimizer.h"

namespace tandem {

class ConfigTable;

/// The [optimizer] table of a run file. Defaults are torch.optim's.
///
///     kind = "sgd"                 # required
///     lr = 0.1                     # required, > 0: for the run's global batch
///     momentum = 0.9               # default 0, below 1
///     nesterov = true              # default false; needs momentum
///     weight_decay = 5e-4          # default 0: added to the gradient
///     decay_norm_and_bias = false  # default true; false: norm and bias parameters do not decay
struct OptimizerConfig {
  std::string kind;
  double learning_rate = 0.0;
  double momentum = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decay_norm_and_bias = true;

  /// The decay of one parameter; `norm_or_bias` says whether it is a norm's or a bias.
  float decay_of(bool norm_or_bias) const;
};

/// Reads the table and rejects keys that its kind does not know. Throws InputError.
OptimizerConfig read_optimizer_config(const ConfigTable& table);

/// The optimizer that `config` names. The slices carry each parameter's decay (decay_of()); the
/// context outlives what is returned.
std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, AnyContext& context,
                                          std::int64_t arena_elements,
                                          std::span<const ParameterGroupSlice> slices);

}  // namespace tandem
