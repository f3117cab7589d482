#include "base/temporary_name.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <string>

#include "base/host_tag.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

fs::path named(const fs::path& folder, const std::string& writer) {
  fs::path path = folder / ("state.tmp." + writer);
  std::ofstream(path) << "x";
  return path;
}

pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return child;
}

TEST(TemporaryName, IsTheProcesssOwn) {
  const fs::path own = temporary_name("run/state");
  EXPECT_TRUE(own.string().starts_with("run/state.tmp.")) << own;
  EXPECT_EQ(temporary_name("run/state"), own);
  EXPECT_TRUE(left_by_dead_writer(own));
}

TEST(TemporaryName, OfADeadWriter) {
  const TemporaryFolder folder;
  const auto of = [](pid_t process) { return fmt::format("{}-{}-0badcafe", host_tag(), process); };
  EXPECT_TRUE(left_by_dead_writer(named(folder.path(), of(dead_process()))));
  EXPECT_TRUE(left_by_dead_writer(named(folder.path(), of(::getpid()))));
  EXPECT_FALSE(left_by_dead_writer(named(folder.path(), of(::getppid()))));
  for (const char* writer : {"1", "txt", "-1-", "0000--1-00000000", "0000-x-00000000"}) {
    EXPECT_FALSE(left_by_dead_writer(named(folder.path(), writer))) << writer;
  }
  EXPECT_FALSE(left_by_dead_writer(folder / "state"));
}

TEST(TemporaryName, OfAnotherHostIsLeftAloneForAnHour) {
  const TemporaryFolder folder;
  const std::string other = host_tag() == "0000" ? "0001" : "0000";
  const fs::path path = named(folder.path(), other + fmt::format("-{}-0badcafe", dead_process()));
  EXPECT_FALSE(left_by_dead_writer(path));
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(left_by_dead_writer(path));
}

}  // namespace
}  // namespace tandem
