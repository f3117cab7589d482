#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace tandem {

/// Bytes of this host's memory that processes like this one can still have: what the kernel calls
/// available, and free swap, and at most what the limits of this process's control groups leave, as
/// containers and batch systems set them (memory.max in cgroup v2, memory.limit_in_bytes in v1);
/// files that a group's processes have read, and what the kernel remembers of files, do not count
/// as used. Nothing where none of it can be read. `root`: where proc and sys/fs/cgroup are.
std::optional<std::size_t> available_host_memory(const std::filesystem::path& root = "/");

}  // namespace tandem
