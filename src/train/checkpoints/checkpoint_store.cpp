#include "train/checkpoints/checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_work.h"
#include "base/log.h"
#include "base/temporary_name.h"
#include "base/text.h"
#include "train/checkpoints/mapped_file.h"
#include "train/checkpoints/safetensors.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

void check(const std::error_code& code, std::string_view what, const fs::path& path) {
  if (code) file_error(fmt::format("cannot {} '{}'", what, path.string()), code);
}

bool is_sound(const fs::path& checkpoint) {
  try {
    const SafetensorsFile opened(checkpoint, ReadChecksum::required);
    return true;
  } catch (const InputError&) {
    return false;
  }
}

std::string name_for_step(std::int64_t step) { return fmt::format("step-{:08}.safetensors", step); }

std::optional<std::int64_t> step_of(const std::string& name) {
  constexpr std::string_view prefix = "step-";
  const std::size_t dot = name.find('.');
  if (!name.starts_with(prefix) || dot == std::string::npos) return std::nullopt;
  const auto step =
      parse_number<std::int64_t>(std::string_view(name).substr(prefix.size(), dot - prefix.size()));
  // Only the one spelling that this class writes.
  if (!step || *step < 0 || name != name_for_step(*step)) return std::nullopt;
  return step;
}

/// The step that a checkpoint says it is of; nullopt where it is damaged or says nothing.
std::optional<std::int64_t> recorded_step(const fs::path& checkpoint) {
  try {
    const SafetensorsFile file(checkpoint, ReadChecksum::required);
    return parse_number<std::int64_t>(file.metadata_at("step"));
  } catch (const InputError& error) {
    log_warning("{}", error.what());
    return std::nullopt;
  }
}

std::vector<fs::path> files_of(const fs::path& folder) {
  file_in_hand(folder);
  std::vector<fs::path> files;
  std::error_code code;
  fs::directory_iterator entries(folder, code);
  // A path through a file is no folder either; who makes the folder says so.
  if (code == std::errc::no_such_file_or_directory || code == std::errc::not_a_directory) {
    return files;
  }
  check(code, "list", folder);
  for (const fs::directory_iterator end; entries != end; entries.increment(code)) {
    file_moved();
    files.push_back(entries->path());
  }
  check(code, "list", folder);
  return files;
}

void remove_file(const fs::path& path) {
  file_in_hand(path);
  std::error_code code;
  fs::remove(path, code);  // One that is gone already is no error.
  check(code, "remove", path);
}

/// Behind the name of a step checkpoint that a run which goes on from an earlier one has left
/// behind.
constexpr std::string_view superseded = ".superseded";

/// The name of a best checkpoint that such a run has left behind.
std::string best_of(std::int64_t step) { return "best-of-" + name_for_step(step); }

void copy_atomically(const fs::path& from, const fs::path& to) {
  const MappedFile source(from);
  AtomicFile file(to);
  file.write(source.bytes().data(), source.bytes().size());
  file.commit();
}

}  // namespace

CheckpointStore::CheckpointStore(fs::path folder) : folder_(std::move(folder)) {}

void CheckpointStore::create_folder() const {
  std::error_code code;
  fs::create_directories(folder_, code);
  check(code, "create the folder", folder_);
}

fs::path CheckpointStore::path_for_step(std::int64_t step) const {
  TANDEM_CHECK(step >= 0, "step {} is negative", step);
  return folder_ / name_for_step(step);
}

fs::path CheckpointStore::best_path() const { return folder_ / "best.safetensors"; }

std::vector<StepCheckpoint> CheckpointStore::list() const {
  std::vector<StepCheckpoint> found;
  for (const fs::path& path : files_of(folder_)) {
    if (const auto step = step_of(path.filename().string())) found.push_back({*step, path});
  }
  std::sort(found.begin(), found.end(),
            [](const StepCheckpoint& a, const StepCheckpoint& b) { return a.step < b.step; });
  return found;
}

std::optional<StepCheckpoint> CheckpointStore::newest() const {
  std::vector<StepCheckpoint> found = list();
  const std::size_t count = found.size();
  for (; !found.empty(); found.pop_back()) {
    try {
      const SafetensorsFile opened(found.back().path, ReadChecksum::required);
      return found.back();
    } catch (const InputError& error) {
      log_warning("skipping a checkpoint: {}", error.what());
    }
  }
  if (count == 0) return std::nullopt;
  input_error(
      "none of the {} checkpoints in '{}' is sound; {}restore one from a copy, or start a new run "
      "in another folder",
      count, folder_.string(),
      is_sound(best_path()) ? fmt::format("go on with --resume {}, ", best_path().string()) : "");
}

std::optional<StepCheckpoint> CheckpointStore::to_resume() const {
  if (auto found = newest()) return found;
  const auto best = best_step();
  return best ? std::optional<StepCheckpoint>({*best, best_path()}) : std::nullopt;
}

std::optional<fs::path> CheckpointStore::find(std::int64_t step) const {
  const std::string name = name_for_step(step);
  for (const std::string& each : {name, best_of(step), name + std::string(superseded)}) {
    std::error_code code;
    if (fs::exists(folder_ / each, code) && recorded_step(folder_ / each) == step) {
      return folder_ / each;
    }
  }
  return std::nullopt;
}

void CheckpointStore::keep_last(int count) const {
  TANDEM_CHECK(count >= 1, "at least one checkpoint is kept, not {}", count);
  const std::vector<StepCheckpoint> found = list();
  const std::size_t kept = std::min(found.size(), static_cast<std::size_t>(count));
  for (std::size_t i = 0; i + kept < found.size(); ++i) remove_file(found[i].path);
  for (const fs::path& path : files_of(folder_)) {
    const std::string name = path.filename().string();
    if (left_by_dead_writer(path) || name.ends_with(superseded)) remove_file(path);
  }
}

std::optional<std::int64_t> CheckpointStore::best_step() const {
  std::error_code code;
  return fs::exists(best_path(), code) ? recorded_step(best_path()) : std::nullopt;
}

bool CheckpointStore::holds_any() const {
  std::error_code code;
  return !list().empty() || fs::exists(best_path(), code);
}

bool CheckpointStore::drop_after(std::int64_t step) const {
  const bool any = std::ranges::any_of(
      list(), [step](const StepCheckpoint& found) { return found.step > step; });
  for (const StepCheckpoint& found : list()) {
    if (found.step <= step) continue;
    const fs::path aside = found.path.string() + std::string(superseded);
    log_warning("the run goes on from step {}: {} stays as {} until the next checkpoint is written",
                step, found.path.string(), aside.filename().string());
    std::error_code code;
    fs::rename(found.path, aside, code);
    check(code, "rename", found.path);
  }
  std::error_code code;
  if (!fs::exists(best_path(), code)) return any;
  fs::path aside = folder_ / "best-damaged.safetensors";
  if (const std::optional<std::int64_t> best = recorded_step(best_path())) {
    if (*best <= step) return any;
    aside = folder_ / best_of(*best);
  }
  log_warning("{} is not of the steps up to {}, from which the run goes on: it stays as {}",
              best_path().string(), step, aside.string());
  fs::rename(best_path(), aside, code);
  check(code, "rename", best_path());
  return any;
}

void CheckpointStore::set_best(const fs::path& checkpoint) const { put(checkpoint, best_path()); }

void CheckpointStore::set_step(const fs::path& checkpoint, std::int64_t step) const {
  put(checkpoint, path_for_step(step));
}

void CheckpointStore::put(const fs::path& checkpoint, const fs::path& place) const {
  // Under a temporary name that keep_last() clears away after a crash.
  const fs::path temporary = temporary_name(place);
  remove_file(temporary);
  std::error_code code;
  fs::create_hard_link(checkpoint, temporary, code);
  if (code == std::errc::no_such_file_or_directory) check(code, "link", checkpoint);
  if (code) {  // Many reasons, one meaning: this file system has no hard links here.
    copy_atomically(checkpoint, place);
    return;
  }
  fs::rename(temporary, place, code);
  check(code, "rename into place", place);
  // rename() leaves both names where they are one file already.
  remove_file(temporary);
  sync_folder(folder_);
}

}  // namespace tandem
