#include "base/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/temporary_name.h"
#include "support/message.h"
#include "support/no_file_more.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::string contents(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::ptrdiff_t files_in(const std::filesystem::path& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

TEST(AtomicFile, AppearsWholeAtCommit) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "state");
  file.write("first ");
  file.write(std::string(100000, 'x'));
  EXPECT_FALSE(std::filesystem::exists(folder / "state"));
  file.commit();
  EXPECT_EQ(contents(folder / "state"), "first " + std::string(100000, 'x'));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TemporaryFolder folder;
  { AtomicFile(folder / "state").write("half"); }
  EXPECT_EQ(files_in(folder.path()), 0);
}

TEST(AtomicFile, ReplacesWholeOrNotAtAll) {
  const TemporaryFolder folder;
  std::ofstream(folder / "state") << "a long old text";
  { AtomicFile(folder / "state").write("never"); }
  EXPECT_EQ(contents(folder / "state"), "a long old text");
  AtomicFile file(folder / "state");
  file.write("new");
  EXPECT_EQ(contents(folder / "state"), "a long old text");
  file.commit();
  EXPECT_EQ(contents(folder / "state"), "new");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, NamesTheFolderThatIsNotThere) {
  const TemporaryFolder folder;
  const std::string message = message_of<InputError>([&] { AtomicFile(folder / "missing/state"); });
  EXPECT_NE(message.find("cannot create '" + (folder / "missing/state").string()),
            std::string::npos)
      << message;
  EXPECT_NE(message.find("No such file or directory"), std::string::npos) << message;
}

// The file's name is not what is wrong.
TEST(AtomicFile, FailsAsTheMachineWhereNoFileMoreCanBeOpened) {
  const TemporaryFolder folder;
  std::string message;
  {
    const NoFileMore none;
    message = message_of<SystemError>([&] { AtomicFile(folder / "state"); });
  }
  EXPECT_EQ(message, "cannot create '" + (folder / "state").string() + "': Too many open files");
}

/// A folder in the way of the rename: unlike a folder without write permission it stops root too.
TEST(AtomicFile, CleansUpWhereItCannotFinish) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "state");
  std::filesystem::create_directories(folder / "state/occupied");
  file.write("text");
  const std::string message = message_of<SystemError>([&] { file.commit(); });
  EXPECT_NE(message.find("cannot finish '" + (folder / "state").string()), std::string::npos)
      << message;
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, NamesTheDeviceThatIsFull) {
  // /dev/full refuses every write; the temporary file is made to lead there.
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/full", temporary_name(folder / "state"));
  AtomicFile file(folder / "state");
  const std::string message = message_of<SystemError>([&] { file.write("text"); });
  EXPECT_EQ(message, "cannot write '" + (folder / "state").string() + "': No space left on device");
  const std::string nowhere = (folder / "nowhere" / "state").string();
  EXPECT_EQ(message_of<InputError>([&] { AtomicFile lost(nowhere); }),
            "cannot create '" + nowhere + "': No such file or directory; make the folder '" +
                (folder / "nowhere").string() + "', or name another file");
}

TEST(AtomicFile, RefusesToReplaceWhatIsNoOrdinaryFile) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder / "folder");
  for (const char* name : {"pipe", "folder"}) {
    const std::string message = message_of<InputError>([&] { AtomicFile(folder / name); });
    EXPECT_NE(message.find("exists and is no ordinary file"), std::string::npos) << message;
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder / "pipe"));
}

TEST(AtomicFile, FollowsALink) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere/state", folder / "link");
  for (const char* text : {"one", "two"}) {  // at first the link points to nothing yet
    AtomicFile file(folder / "link");
    file.write(text);
    file.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
    EXPECT_EQ(contents(folder / "elsewhere/state"), text);
  }
}

}  // namespace
}  // namespace tandem
