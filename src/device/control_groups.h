#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace tandem {

/// Folders of the control groups that this process is in for a controller ("cpu", "memory"), each
/// before those above it, up to the mount: of cgroup v2, and of v1's hierarchy of that controller.
/// Some may not be there: a container may see its own group as the topmost, under the name that the
/// host has for it. `root`: where proc and sys/fs/cgroup are.
std::vector<std::filesystem::path> control_group_folders(std::string_view controller,
                                                         const std::filesystem::path& root);

}  // namespace tandem
