#pragma once

#include <filesystem>

#include "parallel/communicator.h"
#include "train/evaluator.h"
#include "train/run_config.h"

namespace tandem {

/// Evaluates weights (a checkpoint or a weights file) on the test set of a run file. Collective.
/// Processes of ranks that end meanwhile are told (Communicator::watch_processes()).
Evaluation evaluate_weights(const RunConfig& config, const std::filesystem::path& weights,
                            Communicator& communicator);

}  // namespace tandem
