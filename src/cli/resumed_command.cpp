#include "cli/resumed_command.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/command_words.h"
#include "cli/default_folder.h"
#include "train/checkpoints/checkpoint_store.h"
#include "train/checkpoints/run_checkpoints.h"

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

/// What --resume is given, nothing where it stands alone; none where it is not there.
std::optional<std::string> resumed_from(const std::vector<std::string>& command) {
  const std::vector<std::string> given = values_of(command, "--resume");
  if (!given.empty() && !given.back().starts_with('-')) return given.back();
  const bool alone = std::ranges::find(command, "--resume") != command.end();
  return alone ? std::optional<std::string>("") : std::nullopt;
}

bool trains(const std::vector<std::string>& command) {
  return command.at(0) == "train" && command.size() > 1;
}

std::filesystem::path folder_of(const std::vector<std::string>& command) {
  const std::vector<std::string> out = values_of(command, "--out");
  return run_folder(command[1], out.empty() ? "" : out.back());
}

CheckpointStore store_of(const std::vector<std::string>& command) {
  return CheckpointStore(folder_of(command) / "checkpoints");
}

/// What no other file has, nor this one once it was written again; zeros where it is gone.
FileIdentity identity_of(const std::filesystem::path& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return {};
  const auto& [seconds, nanoseconds] = found.st_mtim;
  return {found.st_dev, found.st_ino, static_cast<std::uint64_t>(seconds),
          static_cast<std::uint64_t>(nanoseconds)};
}

}  // namespace

CheckpointFiles checkpoints_before(const std::vector<std::string>& command) {
  const std::string from = resumed_from(command).value_or("");
  if (!trains(command) || from.empty()) return {};
  CheckpointFiles files;
  for (const StepCheckpoint& each : store_of(command).list()) files.insert(identity_of(each.path));
  return files;
}

Continuation resumed_command(const std::vector<std::string>& command,
                             const CheckpointFiles& before) {
  if (!trains(command)) return {command, "from the start"};
  const std::optional<StepCheckpoint> newest = store_of(command).to_resume();
  // A run that was to go on from another run's checkpoint does that again.
  if (!newest) return {command, "from the start: there is no checkpoint yet"};
  // And one that came to nothing before it had begun to go on from an earlier checkpoint.
  if (before.contains(identity_of(newest->path))) {
    return {command, "from " + resumed_from(command).value_or("the start"), true};
  }
  std::vector<std::string> words = without_resume(command);
  words.emplace_back("--resume");
  return {words, fmt::format("from step {} ({})", newest->step, newest->path.string()), true};
}

void require_fresh_folder(const std::vector<std::string>& command) {
  if (!trains(command)) return;
  const std::optional<std::string> resumed = resumed_from(command);
  require_fresh_folder(RunPlace{.folder = folder_of(command),
                                .resume = resumed.has_value(),
                                .resume_from = resumed.value_or(""),
                                .config = command[1]});
}

}  // namespace tandem
