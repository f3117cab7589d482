#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem {

/// "2024-05-06T07:08:09Z", now.
std::string utc_time();

/// "0.1.0".
std::string tandem_version();

/// What a run's record says of where and how it ran, in this order: "date" (UTC, ISO 8601), "host",
/// "command" (quoted for a shell), "tandem" (version) and "compiler".
std::vector<std::pair<std::string, std::string>> environment_facts();

}  // namespace tandem
