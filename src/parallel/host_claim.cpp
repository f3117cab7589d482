#include "parallel/host_claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace tandem {
namespace {

/// Empty where the server has no folder on this host.
std::string file_of_claim(const std::string& job, const std::string& what) {
  const char* const folder = std::getenv("PMIX_SERVER_TMPDIR");
  if (folder == nullptr || *folder == '\0') return {};
  return fmt::format("{}/tandem-{}-{}", folder, what, job);
}

/// What `ask` says, which may hang for ever where the folder's disk does; then `unknown`.
bool within_a_second(std::packaged_task<bool()> ask, bool unknown) {
  std::future<bool> answer = ask.get_future();
  try {
    std::thread(std::move(ask)).detach();
  } catch (const std::system_error&) {
    return unknown;  // no thread can be started
  }
  const bool came = answer.wait_for(std::chrono::seconds(1)) == std::future_status::ready;
  return came ? answer.get() : unknown;
}

bool claims_by_file(const std::string& file, const std::string& job, const std::string& what) {
  const int descriptor = ::open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) return errno == EEXIST ? false : claims_on_host(job, what, true);
  static_cast<void>(::close(descriptor));
  return true;
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
  if (file.empty()) return claims_on_host(job, what, true);
  return within_a_second(
      std::packaged_task<bool()>([=] { return claims_by_file(file, job, what); }), true);
}

bool is_claimed_until_job_ends(const std::string& job, const std::string& what) {
  const std::string file = file_of_claim(job, what);
  if (file.empty()) return false;
  return within_a_second(
      std::packaged_task<bool()>([=] { return ::access(file.c_str(), F_OK) == 0; }), false);
}

}  // namespace tandem
