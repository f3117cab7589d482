#include "base/file_work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "base/atomic_file.h"
#include "base/error.h"
#include "support/spoken_words.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

TEST(FileWork, IsToldByItsThreadAlone) {
  FileWork work;
  const FileWork::Told told(work);
  file_in_hand("a/file");
  EXPECT_EQ(work.file(), "a/file");
  const auto moves = work.moves();
  EXPECT_GT(moves, 0U);
  std::thread([] {
    file_in_hand("another");
    file_moved();
  }).join();
  EXPECT_EQ(work.file(), "a/file");
  EXPECT_EQ(work.moves(), moves);
  file_moved();
  EXPECT_GT(work.moves(), moves);
}

TEST(FileWork, Nests) {
  FileWork outer;
  const FileWork::Told told(outer);
  {
    FileWork inner;
    const FileWork::Told inner_told(inner);
    file_in_hand("inner");
    EXPECT_EQ(inner.file(), "inner");
  }
  EXPECT_EQ(outer.moves(), 0U);
  file_in_hand("outer");
  EXPECT_EQ(outer.file(), "outer");
}

TEST(FileWork, IsToldNothingWhereNobodyWaits) {
  file_in_hand("a/file");
  file_moved();
}

TEST(FileWork, HasMoreTimeToSyncAFileUntilItMoves) {
  FileWork work;
  const FileWork::Told told(work);
  file_in_hand("a/file");
  EXPECT_EQ(work.allowance(), 0.0);
  const auto moves = work.moves();
  file_syncs(std::uint64_t{64} << 20U);
  EXPECT_EQ(work.allowance(), 4.0);
  EXPECT_GT(work.moves(), moves);
  file_moved();
  EXPECT_EQ(work.allowance(), 0.0);
}

// Or a checkpoint would stand still for as long as fsync() takes for all of it.
TEST(FileWork, MovesWithEachPartOfALargeFile) {
  const TemporaryFolder folder;
  FileWork work;
  const FileWork::Told told(work);
  const std::string bytes(std::size_t{50} << 20U, 'x');
  AtomicFile file(folder / "large");
  const auto before = work.moves();
  file.write(bytes);
  EXPECT_GE(work.moves(), before + 12);
  file.commit();
  EXPECT_EQ(std::filesystem::file_size(folder / "large"), bytes.size());
  EXPECT_EQ(work.file(), (folder / "large").string());
}

/// As a thread is under a disk that does not answer.
void never_end() {
  for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
}

TEST(FileWork, ThatHangsIsSpokenOfWithTheStep) {
  testing::expect_spoken(7, "^a/file: waited 0\\.2 s for it; .*raise a\\.key \\([^ ]+, step 7\\)$",
                         [] {
                           await_file_work(
                               {.seconds = 0.2, .key = "a.key"},
                               [] {
                                 file_in_hand("a/file");
                                 never_end();
                               },
                               [] {});
                         });
}

TEST(FileWork, IsEndedByAnErrorThatIsSpokenOfWithTheStep) {
  const auto fail = [] { await_file_work({}, never_end, [] { system_error("rank 1 is gone"); }); };
  testing::expect_spoken(7, "^step 7: rank 1 is gone$", fail);
  testing::expect_spoken(0, "^rank 1 is gone$", fail);
}

}  // namespace
}  // namespace tandem
