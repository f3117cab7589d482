#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "train/run_config.h"

namespace tandem {

// What a run will be, told by its config before anything runs.

/// The model for so many classes, not fused. Throws InputError where it does not load.
Graph run_model(const RunConfig& config, std::int64_t classes);

/// The fused model; of data in a folder with as many classes as that has. Throws InputError where
/// it does not load, or the folder cannot be listed.
Graph planned_model(const RunConfig& config);

/// Throws InputError, with the batch's place in the config, where it cannot be dealt to so many
/// processes.
void require_dealt_batch(const RunConfig& config, std::int64_t processes);

/// Samples that each of so many processes takes at once; 0 where the batch cannot be dealt to them.
std::int64_t planned_batch(const RunConfig& config, std::int64_t processes);

}  // namespace tandem
