#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/placement_store.h"
#include "train/placement_key.h"

namespace tandem {

/// What `tandem tune` chose for a command (`train CONFIG ...` or `bench CONFIG ...`, with its
/// --set) on these devices; nothing where it was not asked yet. Throws InputError where the config
/// does not read.
std::optional<TunedPlacement> tuned_placement(const std::vector<std::string>& command,
                                              const DeviceSet& devices);

}  // namespace tandem
