#include "device/control_groups.h"

#include <fstream>
#include <string>

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool names(std::string_view controllers, std::string_view controller) {
  const std::string list = "," + std::string(controllers) + ",";
  return list.find("," + std::string(controller) + ",") != std::string::npos;
}

}  // namespace

std::vector<fs::path> control_group_folders(std::string_view controller, const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  std::vector<fs::path> folders;
  // A line is HIERARCHY:CONTROLLERS:GROUP; cgroup v2's has no controllers.
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!controllers.empty() && !names(controllers, controller)) continue;
    fs::path at = fs::path(line.substr(second + 1)).lexically_normal().relative_path();
    for (; !at.empty(); at = at.parent_path()) folders.push_back(mount / controllers / at);
    folders.push_back(mount / controllers);
  }
  return folders;
}

}  // namespace tandem
