#pragma once

#include <cstdint>

#include "graph/graph.h"
#include "train/run_config.h"

namespace tandem {

/// How many of a process's ranks have batch statistics, and running ones, of their own: with
/// train.sync_batch_norm all have the same.
std::int64_t ranks_with_statistics(const RunConfig& config);

/// Throws InputError that names the first batch normalisation of `graph` which would train on one
/// value of each channel: normalised it is 0, whatever the input, so that nothing before it learns,
/// and the running variance has no estimate (PyTorch refuses it too). `graph`: the model before
/// fusion; `batch`: samples of one micro-batch of a process, of all of its folded ranks; with
/// train.sync_batch_norm those of all `processes` count.
void require_values_to_normalise(const Graph& graph, const RunConfig& config, std::int64_t batch,
                                 std::int64_t processes);

}  // namespace tandem
