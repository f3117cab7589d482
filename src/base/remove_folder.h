#pragma once

#include <filesystem>

namespace tandem {

/// Removes a folder with all that is in it, or a file. Where others remove or add something there
/// at the same time std::filesystem::remove_all() ends half way; here that counts as nothing.
/// Returns whether nothing is left; what may not be removed stays. Gives up where others do so for
/// seconds.
[[nodiscard]] bool remove_folder(const std::filesystem::path& path);

}  // namespace tandem
