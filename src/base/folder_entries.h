#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace tandem {

/// What a folder holds, in no order.
struct FolderEntries {
  std::vector<std::filesystem::path> paths{};
  std::error_code error{};  ///< what kept it from being read, or read to its end
};

/// Throws nothing for a folder that cannot be read: one of /proc goes with its process, also while
/// it is read. (A range-for over std::filesystem::directory_iterator throws then, error_code or
/// not.) Not for folders of very many entries on disks that may hang: those are read entry by
/// entry, with file_moved().
inline FolderEntries entries_of(const std::filesystem::path& folder) {
  FolderEntries found;
  std::filesystem::directory_iterator each(folder, found.error);
  for (const std::filesystem::directory_iterator end; !found.error && each != end;
       each.increment(found.error)) {
    found.paths.push_back(each->path());
  }
  return found;
}

}  // namespace tandem
