#include "cli/tuned_placement.h"

#include "cli/launched_config.h"

namespace tandem {

std::optional<TunedPlacement> tuned_placement(const std::vector<std::string>& command,
                                              const DeviceSet& devices) {
  if (command.size() < 2 || command[0] == "eval") return std::nullopt;
  return PlacementStore::of_user().find(placement_key(launched_config(command), devices));
}

}  // namespace tandem
