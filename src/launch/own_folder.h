#pragma once

#include <filesystem>

namespace tandem {

/// Whether this is a folder, and no link to one, that this user alone can read and write. In
/// folders that all may write to, somebody else could have made it first.
bool is_own_folder(const std::filesystem::path& path);

}  // namespace tandem
