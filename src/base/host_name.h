#pragma once

#include <string>

namespace tandem {

/// This host's own name, as messages have it; "unknown host" where the system does not tell.
std::string host_name();

}  // namespace tandem
