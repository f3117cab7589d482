#include "device/cpu_quota.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "base/text.h"
#include "device/control_groups.h"

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

}  // namespace

std::optional<double> cpu_quota(const fs::path& root) {
  std::optional<double> least;
  for (const fs::path& group : control_group_folders("cpu", root)) {
    const auto quota = quota_of(group);
    if (quota) least = std::min(*quota, least.value_or(*quota));
  }
  return least;
}

}  // namespace tandem
