#pragma once

#include <string>

#include "parallel/placement_store.h"
#include "train/run_config.h"

namespace tandem {

/// The devices that a run is to use.
struct DeviceSet {
  std::string name;  ///< the GPUs' model as CUDA gives it, or Machine::cpu_model
  int count = 1;     ///< GPUs, or hosts where CPUs compute
};

/// What decides which placement of a run on these devices is fastest; versions are those of this
/// program.
PlacementKey placement_key(const RunConfig& config, const DeviceSet& devices);

}  // namespace tandem
