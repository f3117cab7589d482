#pragma once

#include "optim/schedule.h"

namespace tandem {

class ConfigTable;

/// Reads the [schedule] table of a run of `epochs` epochs at learning rate `base_rate`. Keys that
/// the chosen kind does not know are left to ConfigTable::finish(). Throws InputError. An absent
/// table is a constant rate.
///
///     kind = "constant"        # default; or "step", "cosine", "one-cycle"
///     warmup_epochs = 1.5      # default 0, below epochs; not for one-cycle
///     milestones = [30, 60]    # step: required, epochs, ascending, each above 0
///     gamma = 0.1              # step: default 0.1
///     lr_min = 0.0             # cosine: default 0, at most lr
///     div_factor = 25          # one-cycle: default 25, lr / this at the start
///     final_div_factor = 1e4   # one-cycle: default 1e4, start / this at the end
///     pct_start = 0.3          # one-cycle: default 0.3, the rising part of all steps
Schedule read_schedule_config(const ConfigTable& table, double base_rate, double epochs);

}  // namespace tandem
