#include "device/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>

#include "base/text.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// The file's first two words; empty where there are none.
struct Words {
  std::string first;
  std::string second;
};
Words words_of(const fs::path& path) {
  Words words;
  std::ifstream file(path);
  file >> words.first >> words.second;
  return words;
}

/// "max" and -1, which mean none, are no quota either.
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  const auto time = parse_number<double>(quota);
  const auto every = parse_number<double>(period);
  if (!time || !every || !(*time > 0.0) || !(*every > 0.0)) return std::nullopt;
  return *time / *every;
}

std::optional<double> quota_of(const fs::path& group) {
  const Words v2 = words_of(group / "cpu.max");
  if (!v2.first.empty()) return ratio(v2.first, v2.second);
  return ratio(words_of(group / "cpu.cfs_quota_us").first,
               words_of(group / "cpu.cfs_period_us").first);
}

/// The least of the group and those above it, up to the mount. Groups that are not there are passed
/// over: a container may see its own as the topmost, under the name that the host has for it.
std::optional<double> least_quota(const fs::path& mount, const std::string& group) {
  std::optional<double> least;
  fs::path at = fs::path(group).lexically_normal().relative_path();
  for (;;) {
    const auto quota = quota_of(mount / at);
    if (quota) least = std::min(*quota, least.value_or(*quota));
    if (at.empty()) return least;
    at = at.parent_path();
  }
}

bool names_cpu(std::string_view controllers) {
  const std::string list = "," + std::string(controllers) + ",";
  return list.find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  std::optional<double> least;
  // A line is HIERARCHY:CONTROLLERS:GROUP; cgroup v2's has no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !names_cpu(controllers)) continue;
    const auto quota = least_quota(mount / controllers, line.substr(second + 1));
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

}  // namespace tandem
