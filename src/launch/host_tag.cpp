#include "launch/host_tag.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "base/error.h"
#include "base/hash.h"

namespace tandem {

std::string host_tag() {
  std::array<char, 256> host{};
  TANDEM_CHECK(::gethostname(host.data(), host.size() - 1) == 0, "the host name cannot be read");
  return fmt::format("{:04x}", hash_text(host.data()) & 0xffffU);
}

}  // namespace tandem
