#include "parallel/host_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>

namespace tandem {
namespace {

/// Empty where the server has no folder on this host.
std::string file_of_claim(const std::string& job, const std::string& what) {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  if (folder == nullptr || *folder == '\0') return {};
  return fmt::format("{}/tandem-{}-{}", folder, what, job);
}

}  // namespace

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

bool claims_until_job_ends(const std::string& job, const std::string& what) {
  const std::string file = file_of_claim(job, what);
  if (!file.empty()) {
    const int descriptor = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (descriptor < 0 && errno == EEXIST) return false;
    if (descriptor >= 0) {
      static_cast<void>(::close(descriptor));
      return true;
    }
  }
  return claims_on_host(job, what, true);
}

bool is_claimed_until_job_ends(const std::string& job, const std::string& what) {
  const std::string file = file_of_claim(job, what);
  return !file.empty() && ::access(file.c_str(), F_OK) == 0;
}

}  // namespace tandem
