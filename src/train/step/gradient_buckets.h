#pragma once

#include <span>
#include <vector>

#include "graph/parameters.h"
#include "graph/step_plan.h"
#include "parallel/communicator.h"
#include "parallel/gradient_bucketer.h"
#include "train/run_config.h"

namespace tandem {

/// One for each parameter, at its place in the arenas.
std::vector<ParameterSlice> slices_of(std::span<const Parameter> parameters);

/// How the gradients of a run are cut, which lie in `memory`: as the config says, or else as their
/// sums' `cost` asks for; where they pass, into as little as still is worth an update of its own.
std::vector<Bucket> gradient_buckets(const RunConfig& config, const ParameterStore& store,
                                     SumCost cost, GradientMemory memory);

/// The parameters of each bucket, for StepPlanOptions::gradient_groups where gradients pass.
std::vector<ParameterRange> groups_of(std::span<const Bucket> buckets);

}  // namespace tandem
