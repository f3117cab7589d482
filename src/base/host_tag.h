#pragma once

#include <string>

namespace tandem {

/// Four hexadecimal digits of this host's name, for names in folders that several hosts may share.
std::string host_tag();

}  // namespace tandem
