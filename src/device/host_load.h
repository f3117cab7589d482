#pragma once

#include <filesystem>
#include <optional>

namespace tandem {

/// Seconds for which processors of this host have been busy since it started, all of them together,
/// whoever kept them so: programs, the kernel, or, in a virtual machine, other machines (steal).
/// Counted in hundredths. Nothing where the kernel does not tell. `root`: where proc is.
std::optional<double> host_busy_seconds(const std::filesystem::path& root = "/");

/// Those of this process, all of its threads together.
double process_busy_seconds();

/// Processors (hardware threads) of this host that are online.
int host_processors();

}  // namespace tandem
