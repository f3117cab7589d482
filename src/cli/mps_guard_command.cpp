#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "launch/mps_guard.h"

namespace tandem {

void add_mps_guard_command(CLI::App& app, Command& chosen) {
  struct GuardArguments {
    std::string folder;
    std::vector<std::string> daemons;
  };
  CLI::App* command = app.add_subcommand("mps-guard", "Keeps the MPS daemons of a launched job");
  command->group("");  // not for people
  auto arguments = std::make_shared<GuardArguments>();
  command->add_option("FOLDER", arguments->folder)->required();
  command->add_option("VISIBLE", arguments->daemons)->required();
  command->callback([&chosen, arguments] {
    chosen = [arguments](const MpiSession&) {
      return guard_mps(arguments->folder, arguments->daemons);
    };
  });
}

}  // namespace tandem
