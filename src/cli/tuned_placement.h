#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device/gpu_list.h"
#include "parallel/placement/placement_store.h"
#include "train/placement_key.h"

namespace tandem {

/// This host with the GPUs that a job uses of those that it has, as `tandem tune` and the launcher
/// tell it to placement_key(). None used: its CPU computes.
PlacementHost placement_host(const std::vector<GpuInfo>& used, const GpuList& host);

/// What `tandem tune` chose for a command (`train CONFIG ...` or `bench CONFIG ...`, with its
/// --set) on so many of these hosts; nothing where it was not asked yet. Throws InputError where
/// the config does not read.
std::optional<TunedPlacement> tuned_placement(const std::vector<std::string>& command,
                                              const PlacementHost& host, int hosts);

}  // namespace tandem
