#pragma once

#include <filesystem>

namespace tandem {

/// Where this process writes `path` until it is whole: ".tmp.HOST-PID-NUMBER" behind it. The number
/// is the process's own, since in containers that share a folder process ids may be equal.
std::filesystem::path temporary_name(const std::filesystem::path& path);

/// Whether `path` is named by temporary_name() of a process that is gone. This process's own counts
/// as gone: for callers that write nothing now. Of another host, whose processes cannot be asked
/// for, where nothing has been written for an hour.
bool left_by_dead_writer(const std::filesystem::path& path);

}  // namespace tandem
