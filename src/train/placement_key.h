#pragma once

#include <string>

#include "parallel/placement/placement_store.h"
#include "train/run_config.h"

namespace tandem {

/// What decides on a host which placement is fastest. The hosts of a job are alike.
struct PlacementHost {
  /// "4 x NVIDIA H200"; where the CPU computes, Machine::cpu_model.
  std::string devices{};
  std::string driver{};  ///< the GPUs' driver's version; empty where the CPU computes
  int cores = 1;         ///< physical cores that a process here may use
  std::string build{};   ///< build_id() of the program
};

/// What decides which placement of a run is fastest on so many of these hosts: facts of one host
/// with its share of the global batch, so that a choice of one host is found for several that get
/// as much each. What makes no step longer or shorter is not in it: seeds, rates, numbers of
/// samples and epochs, and what the placement itself sets, loader workers and folded ranks. Throws
/// InputError where the model file cannot be read.
PlacementKey placement_key(const RunConfig& config, const PlacementHost& host, int hosts = 1);

}  // namespace tandem
