#include "device/host_memory.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <string_view>

#include "base/text.h"
#include "device/control_groups.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

/// The number behind `key` in a file of "KEY NUMBER ..." lines.
std::optional<std::size_t> entry_of(const fs::path& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word == key && file >> word) return parse_number<std::size_t>(word);
  }
  return std::nullopt;
}

/// Of a file that holds nothing else; "max", which means no limit, is none.
std::optional<std::size_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return parse_number<std::size_t>(word);
}

struct GroupFiles {
  const char* limit;
  const char* used;
  std::array<const char*, 3> given_away;  ///< of memory.stat: what files take, if need be not
};
constexpr GroupFiles versions[] = {
    {"memory.max", "memory.current", {"inactive_file", "active_file", "slab_reclaimable"}},
    {"memory.limit_in_bytes",
     "memory.usage_in_bytes",
     {"total_inactive_file", "total_active_file", "slab_reclaimable"}}};

std::optional<std::size_t> left_in(const fs::path& group) {
  for (const GroupFiles& files : versions) {
    const auto limit = number_in(group / files.limit);
    const auto used = number_in(group / files.used);
    if (!limit || !used) continue;
    std::size_t cached = 0;
    for (const char* key : files.given_away) {
      cached += entry_of(group / "memory.stat", key).value_or(0);
    }
    const std::size_t held = *used - std::min(*used, cached);
    return *limit - std::min(*limit, held);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> available_host_memory(const fs::path& root) {
  std::optional<std::size_t> least = entry_of(root / "proc/meminfo", "MemAvailable:");
  if (least) *least += entry_of(root / "proc/meminfo", "SwapFree:").value_or(0);
  if (least) *least *= 1024;
  for (const fs::path& group : control_group_folders("memory", root)) {
    const auto left = left_in(group);
    if (left) least = std::min(*left, least.value_or(*left));
  }
  return least;
}

}  // namespace tandem
