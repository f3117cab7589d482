#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "train/run_config.h"

namespace tandem {

// What a run will be, told by its config before anything runs.

/// The fused model; of data in a folder with as many classes as that has. Throws InputError where
/// it does not load, or the folder cannot be listed.
Graph planned_model(const RunConfig& config);

/// Samples that each of so many processes takes at once; 0 where the batch cannot be dealt to them.
std::int64_t planned_batch(const RunConfig& config, std::int64_t processes);

}  // namespace tandem
