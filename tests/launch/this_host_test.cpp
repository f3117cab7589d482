#include "launch/this_host.h"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/host_name.h"

namespace tandem {
namespace {

/// As the kernel's routing table has them: "|-- 10.0.0.1", and "/32 host LOCAL" below it.
std::set<std::string> own_addresses() {
  std::set<std::string> addresses;
  std::ifstream table("/proc/net/fib_trie");
  std::string address;
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string mark;
    std::string value;
    words >> mark >> value;
    if (mark == "|--") address = value;
    if (line.find("/32 host LOCAL") != std::string::npos) addresses.insert(address);
  }
  return addresses;
}

TEST(ThisHost, IsKnownByItsNameUpToTheDomain) {
  const std::string name = host_name().substr(0, host_name().find('.'));
  EXPECT_TRUE(is_this_host("localhost"));
  EXPECT_TRUE(is_this_host(name));
  EXPECT_TRUE(is_this_host(name + ".example.org"));
  EXPECT_TRUE(is_certainly_this_host("localhost"));
  EXPECT_TRUE(is_certainly_this_host(name));
  EXPECT_FALSE(is_certainly_this_host(name + ".example.org"));
  EXPECT_FALSE(is_this_host(name + "x"));
  EXPECT_FALSE(is_this_host("x." + name));
  std::string other_case = name;  // which means nothing in names
  for (char& c : other_case) {
    c = static_cast<char>(std::islower(c) != 0 ? std::toupper(c) : std::tolower(c));
  }
  EXPECT_TRUE(is_this_host(other_case + ".Example.org"));
  EXPECT_TRUE(is_certainly_this_host(other_case));
  EXPECT_TRUE(is_certainly_this_host("LocalHost"));
}

TEST(ThisHost, IsKnownByItsAddresses) {
  const std::set<std::string> addresses = own_addresses();
  ASSERT_TRUE(addresses.contains("127.0.0.1")) << "the kernel's table was not read";
  for (const std::string& address : addresses) EXPECT_TRUE(is_this_host(address)) << address;
  EXPECT_TRUE(is_this_host("127.0.1.1")) << "as Debian's /etc/hosts has it";
  // For examples in documents (RFC 5737), of which sandboxes take some.
  for (const char* address : {"192.0.2.1", "198.51.100.7", "203.0.113.9"}) {
    EXPECT_EQ(is_this_host(address), addresses.contains(address)) << address;
  }
}

}  // namespace
}  // namespace tandem
