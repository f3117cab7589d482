#pragma once

#include <cstdint>
#include <string_view>

#include "data/data_config.h"
#include "data/distributed_sampler.h"
#include "device/machine.h"
#include "parallel/placement/rank_topology.h"
#include "train/record/json_line.h"
#include "train/run_config.h"
#include "train/step/replica.h"

namespace tandem {

/// A run that is about to begin, as references to its parts; they outlive this.
struct RunDescription {
  const RunConfig& config;
  const RankTopology& topology;
  const Machine& machine;
  const Datasets& datasets;
  const DistributedSampler& sampler;
  const Replica& replica;
  std::string device;  ///< what this rank computes on, for people
  int threads = 1;     ///< compute threads of this rank; 0 where a GPU computes
  std::size_t evaluation_bytes = 0;
  std::string_view communicator;
  int processes = 1;
  std::int64_t first_step = 0;  ///< steps done before, where the run is resumed
};

/// Logs what is about to run: machine, model, data, memory, what is special about the recipe.
void log_description(const RunDescription& run);

/// The same as the first record of metrics.jsonl.
JsonLine start_record(const RunDescription& run);

}  // namespace tandem
