#include "cli/launched_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file_work.h"
#include "cli/command_words.h"
#include "cli/commands.h"
#include "cli/rank_config.h"
#include "cli/usage_error.h"

namespace tandem {
namespace {

void require_launchable(const std::vector<std::string>& command) {
  constexpr std::array launched{"train", "bench", "eval"};
  if (!command.empty() && std::ranges::find(launched, command[0]) != launched.end()) {
    if (command.size() > 1 && command[1].empty()) {
      input_error("tandem launch -- {}: the config's path is empty", command[0]);
    }
    if (command.size() > 1 && !command[1].starts_with('-')) return;
    input_error("tandem launch wants the config right behind {0}: tandem launch -- {0} CONFIG ...",
                command[0]);
  }
  input_error(
      "tandem launch starts train, bench or eval{}; for example: tandem launch -- train CONFIG",
      command.empty() ? "" : fmt::format(", not '{}'", command[0]));
}

/// As each rank will.
void require_understood(const std::vector<std::string>& command) {
  CLI::App app("", "tandem");
  Command chosen;
  add_train_command(app, chosen);
  add_bench_command(app, chosen);
  add_eval_command(app, chosen);
  add_launch_command(app, chosen);  // for what a message says of its options
  std::vector<std::string> words(command.rbegin(), command.rend());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    // --help comes here too, with code 0: the ranks answer it.
    if (error.get_exit_code() != 0) input_error("{}", usage_error_text(app, error));
  }
}

}  // namespace

void require_launched_command(const std::vector<std::string>& command) {
  require_launchable(command);
  require_understood(command);
}

RunConfig launched_config(const std::vector<std::string>& command) {
  return read_rank_config(command.at(1), values_of(command, "--set"));
}

DeviceKind launched_device(const std::vector<std::string>& command) {
  if (command.at(0) != "eval") return launched_config(command).device;
  std::vector<std::string> of_config = command;
  const std::filesystem::path inside = std::filesystem::path(command.at(1)) / "config.toml";
  await_rank_files([&] {
    file_in_hand(inside);
    std::error_code code;
    if (std::filesystem::is_regular_file(inside, code)) of_config[1] = inside.string();
  });
  try {
    return launched_config(of_config).device;
  } catch (const InputError&) {
    return DeviceKind::automatic;
  }
}

}  // namespace tandem
