#include "base/file_work.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>

#include "base/atomic_file.h"
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

}  // namespace
}  // namespace tandem
