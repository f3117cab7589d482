#include "launch/old_job_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <string_view>
#include <system_error>

#include "base/folder_entries.h"
#include "base/host_tag.h"
#include "launch/own_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t job_digits = 8;

bool are_digits(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool names_job_folder(std::string_view name, std::string_view start, SeenBy seen_by) {
  const std::string own = host_tag();
  if (!name.starts_with(start) || name.size() != start.size() + job_digits + 1 + own.size()) {
    return false;
  }
  const std::string_view job = name.substr(start.size(), job_digits);
  const std::string_view tag = name.substr(name.size() - own.size());
  if (!are_digits(job) || name[start.size() + job_digits] != '-') return false;
  return seen_by == SeenBy::this_host ? are_digits(tag) : tag == own;
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

std::vector<fs::path> old_job_folders(const fs::path& base, const std::string& start,
                                      SeenBy seen_by) {
  std::vector<fs::path> found;
  for (const fs::path& path : entries_of(base).paths) {
    if (names_job_folder(path.filename().string(), start, seen_by) && is_own_folder(path) &&
        is_old(path)) {
      found.push_back(path);
    }
  }
  return found;
}

}  // namespace tandem
