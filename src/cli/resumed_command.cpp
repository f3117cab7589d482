#include "cli/resumed_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/command_words.h"
#include "cli/default_folder.h"
#include "train/checkpoint_store.h"

namespace tandem {
namespace {

/// The words without --resume and what it is given.
std::vector<std::string> without_resume(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < command.size(); ++at) {
    if (command[at].starts_with("--resume=")) continue;
    if (command[at] != "--resume") {
      words.push_back(command[at]);
      continue;
    }
    if (at + 1 < command.size() && !command[at + 1].starts_with("-")) ++at;
  }
  return words;
}

}  // namespace

Continuation resumed_command(const std::vector<std::string>& command) {
  if (command.at(0) != "train" || command.size() < 2) return {command, "from the start"};
  const std::vector<std::string> out = values_of(command, "--out");
  const CheckpointStore store(run_folder(command[1], out.empty() ? "" : out.back()) /
                              "checkpoints");
  const std::optional<StepCheckpoint> newest = store.newest();
  // A run that was to go on from another run's checkpoint does that again.
  if (!newest) return {command, "from the start: there is no checkpoint yet"};
  std::vector<std::string> words = without_resume(command);
  words.emplace_back("--resume");
  return {words, fmt::format("from step {} ({})", newest->step, newest->path.string()), true};
}

}  // namespace tandem
