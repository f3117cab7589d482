#include "base/process_place.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace tandem {
namespace {

TEST(PlaceText, HoldsWhatIsKnown) {
  const std::string whole = place_text(3, "GPU-a", 12);
  EXPECT_EQ(whole.rfind("rank 3 on ", 0), 0U) << whole;
  EXPECT_TRUE(whole.ends_with(", GPU-a, step 12")) << whole;
  const std::string host = place_text(-1, "", 0);
  EXPECT_EQ(place_text(3, "", 0), "rank 3 on " + host);
  EXPECT_EQ(place_text("ranks 1 and 2", "", 4, 4), "ranks 1 and 2 on " + host + ", step 4");
  EXPECT_EQ(place_text("ranks 1 and 2", "", 0, 5), "ranks 1 and 2 on " + host + ", steps 0 to 5");
}

// In a child, since a process reads its environment once.
TEST(ChildReport, StandsHereOnceTheChildIsDead) {
  const ChildReport report;
  EXPECT_EQ(report.step(), 0);
  EXPECT_EQ(report.timeout_seconds(), 0.0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto [name, value] = report.variable();
    ::setenv(name.c_str(), value.c_str(), 1);
    set_process_step(41);
    set_process_step(42);
    set_process_timeout(2.5);
    ::_exit(process_place().ends_with(", step 42") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(report.step(), 42);
  EXPECT_EQ(report.timeout_seconds(), 2.5);
}

TEST(ChildReport, IsNotTakenFromAForeignDescriptor) {
  const ChildReport report;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::setenv(report.variable().first.c_str(), "0", 1);  // the standard input
    set_process_step(7);
    ::_exit(process_place().ends_with(", step 7") ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(report.step(), 0);
}

}  // namespace
}  // namespace tandem
