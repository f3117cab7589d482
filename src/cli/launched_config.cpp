#include "cli/launched_config.h"

#include "base/config_table.h"
#include "cli/command_words.h"

namespace tandem {

RunConfig launched_config(const std::vector<std::string>& command) {
  ConfigTable table = ConfigTable::from_file(command.at(1));
  for (const std::string& assignment : values_of(command, "--set")) {
    table.override_key(assignment);
  }
  return read_run_config(table);
}

}  // namespace tandem
