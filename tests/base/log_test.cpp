#include "base/log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>

#include "base/error.h"
#include "support/scoped_variable.h"
#include "support/temporary_folder.h"

namespace tandem {
namespace {

std::string spoken_by(int rank) {
  set_process_rank(rank);
  testing::internal::CaptureStderr();
  log_debug("a {}", 1);
  log_info("b {}", 2);
  log_warning("c {}", 3);
  log_error("d {}", 4);
  set_process_rank(-1);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, RankZeroSpeaksAndOthersOnlyReportErrors) {
  EXPECT_EQ(spoken_by(-1), "b 2\nwarning: c 3\nerror: d 4\n");
  EXPECT_EQ(spoken_by(0), "b 2\nwarning: c 3\nerror: d 4\n");
  EXPECT_EQ(spoken_by(2), "[rank 2] error: d 4\n");
}

/// What a new process says with TANDEM_LOG in its environment.
void expect_spoken_with(const char* level, const std::string& pattern) {
  EXPECT_EXIT(
      {
        const ScopedVariable variable("TANDEM_LOG", level);
        log_debug("a");
        log_info("b");
        log_info("c");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^" + pattern + "$")
      << level;
}

TEST(LogDeathTest, LevelIsTakenFromTheEnvironmentAndAWrongOneNamedOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has not spoken yet
  expect_spoken_with("debug", "a\nb\nc\n");
  for (const char* plain : {"info", ""}) expect_spoken_with(plain, "b\nc\n");
  for (const char* wrong : {"DEBUG", "trace"}) {
    expect_spoken_with(wrong, fmt::format("warning: TANDEM_LOG is '{}', but can be 'info' or "
                                          "'debug'; taken as 'info'\nb\nc\n",
                                          wrong));
  }
}

TEST(Log, FileTakesEverythingWithATimeStampAndAppends) {
  const TemporaryFolder folder;
  open_log_file(folder / "first");  // which takes what other tests have said
  std::ofstream(folder / "log") << "before\n";
  open_log_file(folder / "log");
  spoken_by(0);
  close_log_file();
  spoken_by(0);
  std::ifstream stream(folder / "log");
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  const std::string stamp = R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3} )";
  EXPECT_TRUE(
      std::regex_match(text, std::regex("before\n" + stamp + "debug a 1\n" + stamp + "info b 2\n" +
                                        stamp + "warning c 3\n" + stamp + "error d 4\n")))
      << text;
}

TEST(LogDeathTest, FileTakesWhatWasSaidBeforeIt) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has opened none yet
  EXPECT_EXIT(
      {
        {
          const TemporaryFolder folder;
          log_debug("dropped");
          log_info("early");
          open_log_file(folder / "log");
          log_info("late");
          close_log_file();
          log_info("too late");
          std::ifstream stream(folder / "log");
          std::fputs(std::string(std::istreambuf_iterator<char>(stream), {}).c_str(), stderr);
        }
        std::exit(0);
      },
      testing::ExitedWithCode(0), "^early\nlate\ntoo late\n[^ ]* info early\n[^ ]* info late\n$");
}

TEST(Log, ClearsTheLiveLineFirst) {
  set_log_interrupt([] { std::fputs("<clear>", stderr); });
  EXPECT_EQ(spoken_by(2), "<clear>[rank 2] error: d 4\n");
  set_log_interrupt(nullptr);
  EXPECT_EQ(spoken_by(2), "[rank 2] error: d 4\n");
}

}  // namespace
}  // namespace tandem
