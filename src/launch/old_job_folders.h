#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace tandem {

/// The name of a job's folder, which several hosts may see: `start`, the job's eight hexadecimal
/// digits, and this host's tag.
std::string job_folder_name(const std::string& start, const std::string& job);

/// Who has a folder before it: several hosts where it may be on a shared disk; or, as /dev/shm,
/// this host alone, under whatever names its containers go.
enum class SeenBy : std::uint8_t { several_hosts, this_host };

/// Folders in `base` that may be what jobs of this user on this host have left: named as
/// job_folder_name() names them, with this host's tag where several see them, this user's alone,
/// and unchanged for a minute, for a younger one may not be locked yet. Whether somebody holds one
/// the caller looks.
std::vector<std::filesystem::path> old_job_folders(const std::filesystem::path& base,
                                                   const std::string& start, SeenBy seen_by);

}  // namespace tandem
