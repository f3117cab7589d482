#include "train/record/event_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/folder_entries.h"
#include "base/host_name.h"
#include "train/environment.h"

namespace tandem {
namespace {

constexpr std::string_view prefix = "events.out.tfevents.";

/// Times of more digits, which are nobody's, would not sort with the others.
constexpr std::int64_t ten_digits = 9'999'999'999;

/// Seconds since 1970.
double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The SECONDS of an event file's name; 0 for other names.
std::int64_t seconds_in(std::string_view name) {
  std::int64_t seconds = 0;
  if (!name.starts_with(prefix)) return 0;
  name.remove_prefix(prefix.size());
  const auto [rest, code] = std::from_chars(name.data(), name.data() + name.size(), seconds);
  return code == std::errc() && seconds < ten_digits ? seconds : 0;
}

std::filesystem::path new_path(const std::filesystem::path& folder) {
  auto seconds = static_cast<std::int64_t>(wall_time());
  const FolderEntries entries = entries_of(folder);
  for (const std::filesystem::path& path : entries.paths) {
    seconds = std::max(seconds, seconds_in(path.filename().string()) + 1);
  }
  if (entries.error) {
    system_error("cannot list '{}': {}", folder.string(), entries.error.message());
  }
  return folder / fmt::format("{}{:010}.{}.{}", prefix, seconds, host_name(), ::getpid());
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, std::int64_t step)
    : file_(new_path(folder), AppendFile::Existing::refuse) {
  const double now = wall_time();
  file_.write(tfrecord(version_event(now)) + tfrecord(session_start_event(now, step + 1)));
}

void EventWriter::write(std::int64_t step, std::span<const EventScalar> scalars) {
  file_.write(tfrecord(scalars_event(wall_time(), step, scalars)));
}

}  // namespace tandem
