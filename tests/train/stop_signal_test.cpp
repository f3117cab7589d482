#include "train/stop_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "base/error.h"

namespace tandem {
namespace {

/// The wait status of a forked child that runs `body`.
int status_of(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    // A shell without job control starts tests in the background with SIGINT ignored.
    for (const int number : {SIGINT, SIGTERM}) std::signal(number, SIG_DFL);
    ::_exit(body());
  }
  int status = -1;
  return ::waitpid(child, &status, 0) == child ? status : -1;
}

int exit_code(const std::function<int()>& body) {
  const int status = status_of(body);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int g_seen = 0;

TEST(StopSignal, RaisesTheFlagAndNamesTheFirstSignal) {
  EXPECT_EQ(exit_code([] {
              const StopSignal stop;
              if (stop.requested() || stop.signal_number() != 0) return 1;
              if (!stop.signal_name().empty()) return 1;
              ::raise(SIGTERM);
              return stop.signal_number() == SIGTERM && stop.signal_name() == "SIGTERM" ? 42 : 2;
            }),
            42);
  EXPECT_EQ(exit_code([] {
              const StopSignal stop;
              ::kill(::getpid(), SIGINT);
              return stop.requested() && stop.signal_name() == "SIGINT" ? 42 : 2;
            }),
            42);
}

TEST(StopSignal, LeavesIgnoredWhatWas) {
  EXPECT_EQ(exit_code([] {
              if (std::signal(SIGINT, SIG_IGN) == SIG_ERR) return 1;
              {
                const StopSignal stop;
                ::raise(SIGINT);
                if (stop.requested()) return 2;
                ::raise(SIGTERM);
                if (stop.signal_name() != "SIGTERM") return 3;
              }
              ::raise(SIGINT);
              return std::signal(SIGINT, SIG_DFL) == SIG_IGN ? 42 : 4;
            }),
            42);
}

TEST(StopSignal, WhatFollowsWithinASecondChangesNothing) {
  EXPECT_EQ(exit_code([] {
              const StopSignal stop;
              ::raise(SIGINT);
              ::raise(SIGTERM);
              ::raise(SIGINT);
              ::usleep(200'000);
              ::raise(SIGTERM);
              return stop.requested() && stop.signal_name() == "SIGINT" ? 42 : 2;
            }),
            42);
}

TEST(StopSignal, AnotherOneAfterASecondEndsTheProgram) {
  for (const int second : {SIGINT, SIGTERM}) {
    const int status = status_of([second] {
      const StopSignal stop;
      ::raise(SIGINT);
      ::usleep(1'050'000);
      if (!stop.requested()) return 1;
      ::raise(second);
      return 2;
    });
    ASSERT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), second);
  }
}

TEST(StopSignal, FormerHandlersComeBackAndANewOneStartsAfresh) {
  EXPECT_EQ(exit_code([] {
              ::signal(SIGTERM, [](int) { ++g_seen; });
              {
                const StopSignal stop;
                ::raise(SIGTERM);
                if (g_seen != 0) return 1;
              }
              ::raise(SIGTERM);
              if (g_seen != 1) return 2;
              const StopSignal again;
              if (again.requested()) return 3;
              ::raise(SIGINT);
              return again.requested() && g_seen == 1 ? 42 : 4;
            }),
            42);
}

// A launcher's request comes on several ways, whatever became of the first.
TEST(StopSignal, AnotherRequestOfALauncherIsIgnoredToTheEnd) {
  for (const bool asked : {true, false}) {
    EXPECT_EQ(exit_code([asked] {
                {
                  const StopSignal stop;
                  if (asked) ::raise(SIGUSR1);
                  if (stop.requested() != asked) return 1;
                }
                ::raise(SIGUSR1);
                const StopSignal again;
                if (again.requested()) return 2;
                ::raise(SIGUSR1);
                return again.requested() ? 42 : 3;
              }),
              42)
        << asked;
  }
}

TEST(StopSignal, OneAtATime) {
  EXPECT_EQ(exit_code([] {
              const StopSignal stop;
              try {
                const StopSignal other;
              } catch (const Error&) {
                ::raise(SIGTERM);
                return stop.requested() ? 42 : 1;
              }
              return 2;
            }),
            42);
}

}  // namespace
}  // namespace tandem
