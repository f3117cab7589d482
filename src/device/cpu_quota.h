#pragma once

#include <filesystem>
#include <optional>

namespace tandem {

/// CPUs' worth of time that this process's control groups leave it, as containers and batch systems
/// set it (docker --cpus, Kubernetes limits): the least quota / period among its own group and
/// those above it, in cgroup v2 (cpu.max) or v1 (cpu.cfs_quota_us). Nothing where there is no
/// limit, or none can be read. `root`: where proc and sys/fs/cgroup are.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");

}  // namespace tandem
