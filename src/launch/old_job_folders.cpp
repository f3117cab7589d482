#include "launch/old_job_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>
#include <system_error>

#include "base/folder_entries.h"
#include "launch/host_tag.h"
#include "launch/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool is_job_name(std::string_view text) {
  return text.size() == 8 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool names_job_folder(std::string_view name, std::string_view start) {
  const std::string end = "-" + host_tag();
  if (!name.starts_with(start) || !name.ends_with(end) || name.size() < start.size() + end.size())
    return false;
  return is_job_name(name.substr(start.size(), name.size() - start.size() - end.size()));
}

bool is_old(const fs::path& folder) {
  std::error_code code;
  const auto changed = fs::last_write_time(folder, code);
  return !code && fs::file_time_type::clock::now() - changed > std::chrono::minutes(1);
}

}  // namespace

std::string job_folder_name(const std::string& start, const std::string& job) {
  return fmt::format("{}{}-{}", start, job, host_tag());
}

std::vector<fs::path> old_job_folders(const fs::path& base, const std::string& start) {
  std::vector<fs::path> found;
  for (const fs::path& path : entries_of(base).paths) {
    if (names_job_folder(path.filename().string(), start) && is_own_folder(path) && is_old(path)) {
      found.push_back(path);
    }
  }
  return found;
}

}  // namespace tandem
