#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem {

/// The values that a command line gives an option, as "--out DIR" or "--out=DIR".
std::vector<std::string> values_of(const std::vector<std::string>& command,
                                   std::string_view option);

}  // namespace tandem
