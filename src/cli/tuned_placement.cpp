#include "cli/tuned_placement.h"

#include "base/config_table.h"
#include "cli/command_words.h"
#include "train/run_config.h"

namespace tandem {

std::optional<TunedPlacement> tuned_placement(const std::vector<std::string>& command,
                                              const DeviceSet& devices) {
  if (command.size() < 2 || command[0] == "eval") return std::nullopt;
  ConfigTable table = ConfigTable::from_file(command[1]);
  for (const std::string& assignment : values_of(command, "--set")) {
    table.override_key(assignment);
  }
  const PlacementKey key = placement_key(read_run_config(table), devices);
  return PlacementStore::of_user().find(key);
}

}  // namespace tandem
