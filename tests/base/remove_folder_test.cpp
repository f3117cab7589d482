#include "base/remove_folder.h"

#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "support/temporary_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr int files = 20;

void fill(const fs::path& folder) {
  fs::create_directories(folder / "below");
  for (int each = 0; each < files; ++each) {
    std::ofstream(folder / std::to_string(each)) << each;
    std::ofstream(folder / "below" / std::to_string(each)) << each;
  }
}

TEST(RemoveFolder, RemovesAllThatIsInIt) {
  const TemporaryFolder temporary;
  fill(temporary / "folder");
  EXPECT_TRUE(remove_folder(temporary / "folder"));
  EXPECT_FALSE(fs::exists(temporary / "folder"));
}

TEST(RemoveFolder, HasNothingToDoWhereThereIsNone) {
  const TemporaryFolder temporary;
  EXPECT_TRUE(remove_folder(temporary / "folder"));
}

TEST(RemoveFolder, LeavesWhereALinkLeads) {
  const TemporaryFolder temporary;
  fill(temporary / "elsewhere");
  fs::create_directories(temporary / "folder");
  fs::create_directory_symlink(temporary / "elsewhere", temporary / "folder" / "link");
  EXPECT_TRUE(remove_folder(temporary / "folder"));
  EXPECT_TRUE(fs::exists(temporary / "elsewhere" / "below" / "0"));
}

TEST(RemoveFolder, SaysWhatItMayNotRemove) { EXPECT_FALSE(remove_folder("/proc/self/fd")); }

// By remove_all() alone some of them are left.
TEST(RemoveFolder, FinishesWhereOthersRemoveToo) {
  const TemporaryFolder temporary;
  const fs::path folder = temporary / "folder";
  for (int round = 0; round < 200; ++round) {
    fill(folder);
    std::atomic<bool> started{false};
    std::thread other([&] {
      started = true;
      std::error_code ignored;
      for (int each = files - 1; each >= 0; --each) {
        fs::remove(folder / "below" / std::to_string(each), ignored);
        fs::remove(folder / std::to_string(each), ignored);
      }
    });
    while (!started) {
    }
    const bool removed = remove_folder(folder);
    other.join();
    ASSERT_TRUE(removed) << round;
    ASSERT_FALSE(fs::exists(folder)) << round;
  }
}

}  // namespace
}  // namespace tandem
