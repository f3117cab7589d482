#include "base/host_tag.h"

#include <fmt/format.h>

#include "base/hash.h"
#include "base/host_name.h"

namespace tandem {

std::string host_tag() { return fmt::format("{:04x}", hash_text(host_name()) & 0xffffU); }

}  // namespace tandem
