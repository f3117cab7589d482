#include "parallel/host_claim.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace tandem {

std::string pmix_job() {
  const char* const name = std::getenv("PMIX_NAMESPACE");
  return name == nullptr ? "" : name;
}

bool claims_on_host(const std::string& job, const std::string& what, bool unknown) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The first byte of an abstract name is 0: it lives as long as the descriptor, which is left open
  // for the process's own end to close.
  const std::string name = fmt::format("tandem-{}-{}", what, job);
  const std::size_t length = name.copy(address.sun_path + 1, sizeof(address.sun_path) - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return unknown;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(descriptor, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return true;
  const int error = errno;
  static_cast<void>(::close(descriptor));
  return error == EADDRINUSE ? false : unknown;
}

}  // namespace tandem
