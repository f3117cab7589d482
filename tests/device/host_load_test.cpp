#include "device/host_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::optional<double> busy_with(const std::string& stat) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "proc");
  std::ofstream(folder.path() / "proc/stat") << stat;
  return host_busy_seconds(folder.path());
}

TEST(HostLoad, CountsAllButIdlenessAndWaitsForDisks) {
  const auto second = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const std::optional<double> busy =
      busy_with("cpu  100 20 3 5000 700 40 5 600 77 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
  ASSERT_TRUE(busy.has_value());
  EXPECT_DOUBLE_EQ(*busy, (100 + 20 + 3 + 40 + 5 + 600) / second);
}

TEST(HostLoad, IsUnknownWhereTheKernelDoesNotTell) {
  EXPECT_FALSE(busy_with("").has_value());
  EXPECT_FALSE(busy_with("cpu 1 2 3\n").has_value());
  EXPECT_FALSE(busy_with("intr 1 2 3 4 5 6 7 8 9\n").has_value());
  EXPECT_FALSE(host_busy_seconds("/nowhere").has_value());
}

TEST(HostLoad, OfThisProcessIsThatOfTheHostToo) {
  const std::optional<double> host = host_busy_seconds();
  const double own = process_busy_seconds();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (process_busy_seconds() < own + 0.3 && std::chrono::steady_clock::now() < end) {
  }
  EXPECT_GE(process_busy_seconds(), own + 0.3);
  if (host) {
    EXPECT_GE(*host_busy_seconds(), *host + 0.2);  // counted in hundredths
  }
  EXPECT_GE(host_processors(), 1);
}

}  // namespace
}  // namespace tandem
