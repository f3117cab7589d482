#include "launch/supervised_job.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "base/error.h"
#include "launch/exec_report.h"
#include "launch/job_supervisor.h"
#include "launch/rank_watch.h"
#include "support/message.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;

/// Of a signal to this process, while it lives.
class Disposition {
 public:
  Disposition(int number, void (*handler)(int))
      : number_(number), before_(std::signal(number, handler)) {}
  ~Disposition() { std::signal(number_, before_); }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;

 private:
  int number_;
  void (*before_)(int);
};

TEST(SignalQueue, WaitToBeTaken) {
  // What runs the tests may ignore some, as a shell does SIGINT of what it starts with &.
  const Disposition interrupt(SIGINT, SIG_DFL);
  const Disposition terminate(SIGTERM, SIG_DFL);
  const Disposition hangup(SIGHUP, SIG_DFL);
  const Disposition user(SIGUSR1, SIG_DFL);
  const SignalQueue signals;
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) {
    ASSERT_EQ(::raise(number), 0);
    EXPECT_EQ(signals.take(milliseconds(0)), number);
  }
  EXPECT_EQ(signals.take(milliseconds(0)), 0);
}

TEST(SignalQueue, StayIgnoredWhereTheyWere) {
  const Disposition ignored(SIGHUP, SIG_IGN);
  const SignalQueue signals;
  ASSERT_EQ(::raise(SIGHUP), 0);
  EXPECT_EQ(signals.take(milliseconds(0)), 0);
}

TEST(SignalQueue, AreDroppedWhereNobodyTakesThem) {
  const Disposition usual(SIGTERM, SIG_DFL);
  {
    const SignalQueue signals;
    ASSERT_EQ(::raise(SIGTERM), 0);
  }
  SUCCEED();  // this process is still there
}

TEST(RunJob, TellsAProgramThatEndsWith127FromNone) {
  const SignalQueue signals;
  EXPECT_EQ(run_job({"sh", "-c", "exit 127"}, signals).code, 127);
  EXPECT_EQ(message_of<SystemError>([&] { run_job({"/nowhere/mpirun"}, signals); }),
            "/nowhere/mpirun cannot be started: No such file or directory");
}

/// The only rank on its host, in a job of its own.
WatchPlace alone(const std::string& device = "") {
  return {.job = new_job_name(), .device = device};
}

TEST(WatchRank, TellsAProgramThatEndsWith127FromNone) {
  EXPECT_EQ(watch_rank({"/bin/sh", "-c", "exit 127"}, {}, alone()), 127);
  EXPECT_EQ(message_of<SystemError>([] { watch_rank({"/nowhere/tandem"}, {}, alone()); }),
            "/nowhere/tandem cannot be started: No such file or directory");
}

TEST(ExecReport, NamesTheStepThatFailedBeforeExec) {
  ExecReport report;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    errno = EPERM;
    report.fail("setsid");
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(message_of<SystemError>([&] { report.require_started("mpirun"); }),
            "mpirun cannot be started: setsid: Operation not permitted");
}

TEST(ExecReport, SaysWhyThereIsNoPipe) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{.rlim_cur = 0, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const std::string message = message_of<SystemError>([] { ExecReport report; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(message, "no pipe can be made: Too many open files");
}

/// What watch_rank() says of a shell that runs `script`, $PPID being this process.
std::string said_of(const std::string& script) {
  testing::internal::CaptureStderr();
  watch_rank({"/bin/sh", "-c", script}, {}, alone("GPU-a"));
  return testing::internal::GetCapturedStderr();
}

TEST(WatchRank, NamesARankThatCrashesAlsoWhenAskedToStop) {
  for (const char* signal : {"SEGV", "ABRT", "KILL"}) {
    const std::string name(signal);
    const std::string text = said_of("kill -USR1 $PPID; kill -" + name + " $$");
    EXPECT_NE(text.find(", GPU-a was ended by signal "), std::string::npos) << name << text;
  }
  // One that the stop itself ends is no news.
  EXPECT_EQ(said_of("kill -TERM $PPID; kill -TERM $$"), "");
}

// As nohup leaves SIGHUP.
TEST(WatchRank, LeavesASignalIgnoredThatWas) {
  const Disposition ignored(SIGHUP, SIG_IGN);
  EXPECT_EQ(watch_rank({"/bin/sh", "-c", "kill -HUP $PPID; kill -HUP $$; exit 5"}, {}, alone()), 5);
}

bool g_in_parent = false;
bool g_in_child = false;

/// Sends SIGUSR1 to this process just before the next fork(), or to the child just after it.
void signal_at_fork(bool& where) {
  static const int registered = ::pthread_atfork(
      [] {
        if (std::exchange(g_in_parent, false)) ::raise(SIGUSR1);
      },
      nullptr,
      [] {
        if (std::exchange(g_in_child, false)) ::raise(SIGUSR1);
      });
  ASSERT_EQ(registered, 0);
  where = true;
}

TEST(WatchRank, PassesOnASignalThatComesBeforeThereIsARank) {
  const Disposition usual(SIGUSR1, SIG_DFL);
  testing::internal::CaptureStderr();
  signal_at_fork(g_in_parent);
  EXPECT_EQ(watch_rank({"/bin/sleep", "3"}, {}, alone()), 128 + SIGUSR1);
  // One that this process was sent as well is no news.
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(WatchRank, LosesNoSignalThatComesToTheChildBeforeExec) {
  const Disposition usual(SIGUSR1, SIG_DFL);
  signal_at_fork(g_in_child);
  EXPECT_EQ(watch_rank({"/bin/sleep", "3"}, {}, alone()), 128 + SIGUSR1);
}

}  // namespace
}  // namespace tandem
