#pragma once

#include <string>

namespace tandem {

// CUDA's versions are 1000 * major + 10 * minor.

/// "13.0".
std::string cuda_version_text(int version);

/// Why a driver that supports CUDA `driver` runs no program built with toolkit `toolkit`, and what
/// to do, as a phrase; empty where it does. Within a major version older drivers run programs of
/// newer toolkits.
std::string driver_problem(int driver, int toolkit);

}  // namespace tandem
