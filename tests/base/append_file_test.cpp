#include "base/append_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "base/error.h"
#include "support/message.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

class AppendFileTest : public testing::Test {
 protected:
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "file";
};

TEST_F(AppendFileTest, AddsToWhatIsThereAtOnce) {
  {
    AppendFile file(path_);
    file.write("one ");
    EXPECT_EQ(text(), "one ");
  }
  AppendFile file(path_);
  file.write("two");
  EXPECT_EQ(text(), "one two");
  file.truncate(3);
  file.write("!");
  EXPECT_EQ(text(), "one!");
}

TEST_F(AppendFileTest, MovesItsFile) {
  AppendFile first(path_);
  AppendFile second(std::move(first));
  second.write("a");
  AppendFile third(folder_ / "other");
  third = std::move(second);
  third.write("b");
  EXPECT_EQ(third.path(), path_);
  EXPECT_EQ(text(), "ab");
}

TEST_F(AppendFileTest, RefusesAnExistingFileWhereAsked) {
  AppendFile(path_, AppendFile::Existing::refuse).write("a");
  const std::string message =
      message_of<SystemError>([&] { AppendFile(path_, AppendFile::Existing::refuse); });
  EXPECT_NE(message.find(path_.string()), std::string::npos) << message;
  EXPECT_EQ(text(), "a");
}

TEST_F(AppendFileTest, NamesTheFileThatCannotBeWritten) {
  const std::string opened = message_of<SystemError>([&] { AppendFile(folder_ / "no" / "file"); });
  EXPECT_NE(opened.find("no/file"), std::string::npos) << opened;
  AppendFile full("/dev/full");
  const std::string written = message_of<SystemError>([&] { full.write("a"); });
  EXPECT_NE(written.find("write '/dev/full'"), std::string::npos) << written;
}

}  // namespace
}  // namespace tandem
