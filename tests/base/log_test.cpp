#include "base/log.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>

#include "base/error.h"
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

TEST(Log, FileTakesEverythingWithATimeStampAndAppends) {
  const TemporaryFolder folder;
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

TEST(Log, ClearsTheLiveLineFirst) {
  set_log_interrupt([] { std::fputs("<clear>", stderr); });
  EXPECT_EQ(spoken_by(2), "<clear>[rank 2] error: d 4\n");
  set_log_interrupt(nullptr);
  EXPECT_EQ(spoken_by(2), "[rank 2] error: d 4\n");
}

}  // namespace
}  // namespace tandem
