#include "launch/this_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/host_name.h"

namespace tandem {
namespace {

/// In the network's byte order; nothing where the text is no dotted address.
std::optional<in_addr_t> ipv4_address(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) return std::nullopt;
  return address.s_addr;
}

bool is_loopback(in_addr_t address) { return ntohl(address) >> 24 == IN_LOOPBACKNET; }

bool has_interface(in_addr_t address) {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    system_error(
        "the addresses of host {} cannot be listed: {}; give --hosts names instead of addresses",
        host_name(), std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> all(first, &::freeifaddrs);
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in own{};
    std::memcpy(&own, each->ifa_addr, sizeof own);
    if (own.sin_addr.s_addr == address) return true;
  }
  return false;
}

std::string short_name(const std::string& name) { return name.substr(0, name.find('.')); }

/// Letters' case means nothing in them.
bool are_the_same(const std::string& name, const std::string& other) {
  return ::strcasecmp(name.c_str(), other.c_str()) == 0;
}

bool is_by_address(const std::string& host) {
  const auto address = ipv4_address(host);
  return are_the_same(host, "localhost") ||
         (address && (is_loopback(*address) || has_interface(*address)));
}

}  // namespace

bool is_this_host(const std::string& host) {
  if (ipv4_address(host)) return is_by_address(host);
  return is_by_address(host) || are_the_same(short_name(host), short_name(host_name()));
}

bool is_certainly_this_host(const std::string& host) {
  const std::string own = host_name();
  return is_by_address(host) || are_the_same(host, own) || are_the_same(host, short_name(own));
}

}  // namespace tandem
