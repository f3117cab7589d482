#include "base/process_report.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "base/process_place.h"
#include "support/report_file.h"

namespace tandem {
namespace {

/// The exit code of a child in which `work` ran with that variable. A child, since a process reads
/// its environment once.
int in_child(const std::pair<std::string, std::string>& variable,
             const std::function<int()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(variable.first.c_str(), variable.second.c_str(), 1);
    ::_exit(work());
  }
  int status = -1;
  if (::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

int report_all() {
  own_report().set_step(41);
  own_report().set_step(42);
  own_report().set_timeout(2.5);
  own_report().set_wait("a long operation");
  own_report().set_wait("a bucket");
  return has_watching_parent() && process_place().ends_with(", step 42") ? 0 : 1;
}

TEST(ProcessReport, StandsWithTheParentOnceTheChildIsDead) {
  const ReportFile file("tandem-ranks");
  const ProcessReport& report = file.at(512);
  EXPECT_EQ(report.step(), 0);
  EXPECT_EQ(report.timeout_seconds(), 0.0);
  EXPECT_EQ(report.wait(), "");
  EXPECT_EQ(in_child(report_variable(file.descriptor(), 512), report_all), 0);
  EXPECT_EQ(report.step(), 42);
  EXPECT_EQ(report.timeout_seconds(), 2.5);
  EXPECT_EQ(report.wait(), "a bucket");
  EXPECT_EQ(file.at(1024).step(), 0);
}

TEST(HostClaims, AreSharedByAllThatReportThereAndOutliveThem) {
  const ReportFile file("tandem-ranks");
  const auto first = report_variable(file.descriptor(), 512);
  const auto second = report_variable(file.descriptor(), 1024);
  const auto claims = [] { return host_claims()->claim(HostClaim::error) ? 0 : 1; };
  EXPECT_FALSE(file.claims().is_claimed(HostClaim::error));
  EXPECT_EQ(in_child(first, claims), 0);
  EXPECT_EQ(in_child(second, claims), 1);
  EXPECT_TRUE(file.claims().is_claimed(HostClaim::error));
  EXPECT_FALSE(file.claims().is_claimed(HostClaim::killed_rank));
  EXPECT_TRUE(file.claims().claim(HostClaim::last_words));
  EXPECT_FALSE(file.claims().claim(HostClaim::last_words));
}

TEST(ProcessReport, CutsWhatThereIsNoRoomFor) {
  ProcessReport report;
  const std::string text(1000, 'x');
  report.set_wait(text);
  EXPECT_GE(report.wait().size(), 100U);
  EXPECT_TRUE(text.starts_with(report.wait()));
  report.set_wait("");
  EXPECT_EQ(report.wait(), "");
}

TEST(ProcessReport, IsNotTakenFromWhatHoldsNone) {
  const ReportFile file("tandem-ranks");
  const ReportFile other("another");
  const auto reports_alone = [] {
    own_report().set_step(7);
    const bool alone = !has_watching_parent() && host_claims() == nullptr;
    return alone && process_place().ends_with(", step 7") ? 0 : 1;
  };
  for (const auto& variable :
       {report_variable(0, 512), report_variable(other.descriptor(), 512),
        report_variable(file.descriptor(), 4096), report_variable(file.descriptor(), 516),
        report_variable(file.descriptor(), 0),  // where the claims are
        report_variable(-1, 0), std::pair(report_variable(0, 0).first, std::string("x"))}) {
    EXPECT_EQ(in_child(variable, reports_alone), 0) << variable.second;
  }
  for (const std::size_t offset : {0U, 512U}) {
    EXPECT_EQ(file.at(offset).step(), 0);
    EXPECT_EQ(other.at(offset).step(), 0);
  }
}

}  // namespace
}  // namespace tandem
