#include "launch/supervised_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "launch/end_notice.h"
#include "launch/exec_report.h"
#include "launch/job_supervisor.h"
#include "launch/rank_board.h"
#include "launch/rank_watch.h"
#include "support/message.h"
#include "support/temporary_folder.h"

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

/// Of no other run of these tests either.
std::string job_named(const std::string& name) {
  return fmt::format("tests-{}-{}", ::getpid(), name);
}

constexpr std::chrono::seconds patience_of_test(10);

/// What a starter does that waits for a host that is gone, whatever it is told.
const std::vector<std::string> stuck_starter{"sh", "-c", "trap '' TERM; sleep 60 & wait; wait"};

/// Tells of a job's ranks that have failed, until the job is over: the launcher is to be there to
/// hear it.
class FailedRanks {
 public:
  FailedRanks(std::string job, std::vector<int> codes)
      : teller_([job = std::move(job), codes = std::move(codes)](const std::stop_token& over) {
          while (!over.stop_requested()) {
            for (const int code : codes) notify_end(job, code);
            std::this_thread::sleep_for(milliseconds(20));
          }
        }) {}

 private:
  std::jthread teller_;
};

// The restart, and what starts the launcher, go by the code.
TEST(RunJob, EndsAStarterThatDoesNotEndAFailedJobWithTheRanksCode) {
  const SignalQueue signals;
  const std::string job = job_named("stuck");
  for (const auto& [codes, wanted] :
       {std::pair{std::vector{1}, 1}, {{137}, 137}, {{2}, 2}, {{137, 2}, 2}}) {
    const FailedRanks ranks(job, codes);
    const auto begin = std::chrono::steady_clock::now();
    const JobEnd end = run_job(stuck_starter, job, milliseconds(500), signals);
    EXPECT_EQ(end.code, wanted);
    EXPECT_EQ(end.stop_signal, 0);
    const auto taken = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(taken, milliseconds(500));
    EXPECT_LT(taken, std::chrono::seconds(20));
  }
}

/// For half a minute at most.
void wait_for(const std::filesystem::path& file) {
  for (int tries = 0; tries < 3000 && !std::filesystem::exists(file); ++tries) {
    std::this_thread::sleep_for(milliseconds(10));
  }
}

/// How a job ends whose starter has started no rank, sets these traps and sleeps; a signal comes
/// once, behind the traps.
JobEnd end_of_deaf_starter(const std::string& job, const std::string& traps, int seconds,
                           RanksOf ranks) {
  const Disposition interrupt(SIGINT, SIG_DFL);
  const SignalQueue signals;
  const TemporaryFolder folder;
  const std::jthread sender([&] {
    wait_for(folder / "ready");
    ::kill(::getpid(), SIGINT);
  });
  const std::string script = fmt::format("{}; : >'{}'; sleep {} & wait; wait; exit 75", traps,
                                         (folder / "ready").string(), seconds);
  return run_job({"sh", "-c", script}, job, std::chrono::seconds(5), signals, ranks);
}

// As an mpirun that hangs before it has started anybody: batch systems ask once, and then kill.
TEST(RunJob, EndsAStarterThatStartsNoRankAndDoesNotStop) {
  const std::string job = job_named("deaf");
  const auto ended = [&](const std::string& traps) {
    return end_of_deaf_starter(job, traps, 60, RanksOf::this_host);
  };
  const JobEnd asked = ended("trap '' USR1; trap 'exit 9' TERM");
  EXPECT_EQ(asked.code, 9);
  EXPECT_EQ(asked.stop_signal, SIGINT);
  const JobEnd killed = ended("trap '' USR1 TERM");
  EXPECT_EQ(killed.code, 128 + SIGKILL);
  EXPECT_EQ(killed.killed_by, 0) << "nobody else did";
  // Other hosts' ranks may be writing their checkpoint.
  const std::string slow = "trap '' USR1; trap 'exit 9' TERM";
  EXPECT_EQ(end_of_deaf_starter(job, slow, 10, RanksOf::several_hosts).code, 75);
}

/// What a starter does whose ranks stop when they are asked to, which takes `seconds` to end then,
/// and which another signal crashes. Makes the file once it is ready for them.
std::string stopping_starter(const std::filesystem::path& ready, int seconds) {
  return fmt::format(
      "asked=; trap \"asked=1; trap '' USR1\" USR1; trap 'kill $!; kill -SEGV $$' TERM; : >'{}'; "
      "until [ $asked ]; do sleep 0.05; done; sleep {} & wait; exit 75",
      ready.string(), seconds);
}

/// What comes to a launcher, from a person and from ranks by their notices.
struct Event {
  int signal = 0;  ///< 0: none
  int notice = 0;  ///< a rank's exit code; 0: none
};

/// How a job ends to which these come, 2 s apart, since within one second two signals are one;
/// its starter would take `seconds` to end by itself.
struct StoppedJob {
  JobEnd end{};
  std::chrono::duration<double> taken{};

  StoppedJob(const std::string& job, const std::vector<Event>& events, int seconds) {
    const Disposition interrupt(SIGINT, SIG_DFL);
    const SignalQueue signals;
    const TemporaryFolder folder;
    const std::jthread sender([&] {
      wait_for(folder / "ready");
      for (const Event& event : events) {
        if (event.notice != 0) notify_end(job, event.notice);
        if (event.signal != 0) ::kill(::getpid(), event.signal);
        std::this_thread::sleep_for(milliseconds(2000));
      }
    });
    const auto begin = std::chrono::steady_clock::now();
    end = run_job({"sh", "-c", stopping_starter(folder / "ready", seconds)}, job,
                  std::chrono::seconds(5), signals);
    taken = std::chrono::steady_clock::now() - begin;
  }
};

// A person presses Ctrl-C again while mpirun winds down.
TEST(RunJob, LeavesAStarterAloneWhoseRanksHaveStopped) {
  const StoppedJob job(job_named("winding_down"), {{SIGINT, 0}, {SIGINT, 75}}, 6);
  EXPECT_EQ(job.end.code, 75);
  EXPECT_EQ(job.end.stop_signal, SIGINT);
  EXPECT_GT(job.taken.count(), 6.0);
}

// And again, where it hangs.
TEST(RunJob, HasStoppedWhereItsRanksHaveWhateverBecomesOfTheStarter) {
  const StoppedJob job(job_named("stopped"), {{SIGINT, 0}, {SIGINT, 75}, {SIGINT, 0}}, 30);
  EXPECT_EQ(job.end.code, 75);
  EXPECT_EQ(job.end.killed_by, 0);
  EXPECT_LT(job.taken.count(), 20.0);
}

TEST(RunJob, HasNotStoppedWhereItsRanksHaveNot) {
  const StoppedJob job(job_named("insisted"), {{SIGINT, 0}, {SIGINT, 0}}, 30);
  EXPECT_EQ(job.end.code, 128 + SIGSEGV);
  EXPECT_EQ(job.end.stop_signal, SIGINT);
  EXPECT_EQ(job.end.killed_by, 0);
}

/// Standard error of this process, while it lives: a pipe that takes nothing, since it is full, or
/// since it has lost its reader.
class OtherStandardError {
 public:
  explicit OtherStandardError(bool is_full) : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0);
    ::dup2(ends_[1], STDERR_FILENO);
    is_full ? fill() : close_reader();
  }
  ~OtherStandardError() {
    ::dup2(before_, STDERR_FILENO);
    for (const int each : {before_, ends_[0], ends_[1]}) {
      if (each >= 0) ::close(each);
    }
  }
  OtherStandardError(const OtherStandardError&) = delete;
  OtherStandardError& operator=(const OtherStandardError&) = delete;

  void close_reader() { ::close(std::exchange(ends_[0], -1)); }

 private:
  void fill() const {
    ASSERT_EQ(::fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
    while (::write(ends_[1], "full", 4) > 0) {
    }
    ASSERT_EQ(::fcntl(ends_[1], F_SETFL, 0), 0);
  }

  int before_;
  int ends_[2] = {-1, -1};
};

/// Ends with how many requests it has had in a second and a half from the first on.
constexpr const char* counting_starter =
    "count=0; trap 'count=$((count+1))' USR1; : >'{}'; "
    "until [ $count -gt 0 ]; do sleep 0.01; done; "
    "end=$(($(date +%s%N)+1500000000)); while [ $(date +%s%N) -lt $end ]; do sleep 0.01; done; "
    "exit $count";

/// The requests that a starter gets for one signal to the launcher, where `begins`: of a job with a
/// rank that had begun.
int requests_of(const std::string& job, bool begins) {
  const Disposition interrupt(SIGINT, SIG_DFL);
  const SignalQueue signals;
  const TemporaryFolder folder;
  const std::jthread sender([&] {
    wait_for(folder / "ready");
    if (begins) notify_begin(job, 0, -1);
    std::this_thread::sleep_for(milliseconds(300));  // longer than between two looks at notices
    ::kill(::getpid(), SIGINT);
  });
  const std::string script =
      fmt::format(fmt::runtime(counting_starter), (folder / "ready").string());
  return run_job({"sh", "-c", script}, job, std::chrono::seconds(5), signals).code;
}

// mpirun forgets what comes before it has started a rank.
TEST(RunJob, AsksAgainUntilARankHasBegun) { EXPECT_GT(requests_of(job_named("early"), false), 3); }

TEST(RunJob, AsksOnceWhereARankHasBegun) { EXPECT_EQ(requests_of(job_named("begun"), true), 1); }

// As tee ends at the same Ctrl-C, or a terminal is held by Ctrl-S.
TEST(RunJob, HandsAStopOnWhereNothingCanBeSaid) {
  for (const bool is_full : {true, false}) {
    int code = 0;
    {
      const OtherStandardError other(is_full);
      code = StoppedJob(job_named(is_full ? "full" : "gone"), {{SIGINT, 75}}, 1).end.code;
    }
    EXPECT_EQ(code, 75);
  }
}

TEST(RunJob, EndsAStarterThatIsStuckWhereNothingCanBeSaid) {
  const SignalQueue signals;
  const std::string job = job_named("unsaid");
  const FailedRanks ranks(job, {1});
  const Disposition broken_pipe(SIGPIPE, SIG_IGN);
  const auto begin = std::chrono::steady_clock::now();
  JobEnd end;
  {
    OtherStandardError other(true);
    // So that this test ends where the launcher waits for somebody to read.
    const std::jthread later([&](const std::stop_token& over) {
      while (!over.stop_requested() &&
             std::chrono::steady_clock::now() - begin < patience_of_test) {
        std::this_thread::sleep_for(milliseconds(20));
      }
      other.close_reader();
    });
    end = run_job(stuck_starter, job, milliseconds(500), signals);
  }
  EXPECT_EQ(end.code, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patience_of_test);
  EXPECT_EQ(end.unsaid,
            "sh has not ended the job 0.5 s after a rank failed, as where a host is gone; it is "
            "killed");
}

/// Of this process and its children, while it lives.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(const std::filesystem::path& path) {
    if (const char* value = std::getenv(name)) before_ = value;
    ::setenv(name, path.c_str(), 1);
  }
  ~TemporaryDirectory() {
    if (before_) {
      ::setenv(name, before_->c_str(), 1);
    } else {
      ::unsetenv(name);
    }
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

 private:
  static constexpr const char* name = "TMPDIR";
  std::optional<std::string> before_;
};

// As Open MPI's mpirun, which removes its folder where it ends by itself.
TEST(RunJob, RemovesTheFolderOfAStarterThatWasKilled) {
  const SignalQueue signals;
  const TemporaryFolder folder;
  const TemporaryDirectory directory(folder.path());
  constexpr const char* script =
      "umask 077; mine=$TMPDIR/ompi.$(uname -n).$(id -u); mkdir -p $mine/pid.$$/1 $mine/pid.1;"
      "ln -s pid.$$ $mine/last; echo > $mine/pid.$$/contact.txt; kill -KILL $$";
  const JobEnd end =
      run_job({"sh", "-c", script}, job_named("killed"), std::chrono::seconds(5), signals);
  EXPECT_EQ(end.code, 128 + SIGKILL);
  const std::filesystem::directory_entry left(
      std::filesystem::directory_iterator(folder.path())->path());
  EXPECT_FALSE(std::filesystem::exists(left.path() / "last"));
  EXPECT_TRUE(std::filesystem::exists(left.path() / "pid.1")) << "another mpirun's";
}

TEST(RunJob, LeavesAStarterTheTimeToEndAFailedJob) {
  const SignalQueue signals;
  const std::string job = job_named("slow");
  const FailedRanks ranks(job, {2});
  EXPECT_EQ(run_job({"sh", "-c", "sleep 1; exit 3"}, job, std::chrono::seconds(20), signals).code,
            3);
}

// As a person stops a whole job, or a host sleeps, just when a rank has failed: the starter gets
// the time that is left to it afterwards.
TEST(RunJob, CountsNoTimeInWhichTheLauncherStoodStill) {
  const std::string job = job_named("frozen");
  const pid_t launcher = ::fork();
  ASSERT_GE(launcher, 0);
  if (launcher == 0) {
    const SignalQueue signals;
    const JobEnd end =
        run_job({"sh", "-c", "sleep 4; exit 3"}, job, std::chrono::seconds(3), signals);
    std::_Exit(end.code);
  }
  const FailedRanks ranks(job, {1});
  std::this_thread::sleep_for(milliseconds(500));
  ASSERT_EQ(::kill(launcher, SIGSTOP), 0);
  std::this_thread::sleep_for(milliseconds(3000));
  ASSERT_EQ(::kill(launcher, SIGCONT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(launcher, &status, 0), launcher);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST(RunJob, TellsAProgramThatEndsWith127FromNone) {
  const SignalQueue signals;
  const std::string job = job_named("127");
  const std::chrono::seconds patience(5);
  EXPECT_EQ(run_job({"sh", "-c", "exit 127"}, job, patience, signals).code, 127);
  EXPECT_EQ(message_of<SystemError>([&] { run_job({"/nowhere/mpirun"}, job, patience, signals); }),
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

// As where a step takes its time; on one host, where nobody else speaks.
TEST(WatchRank, GivesNeighboursTimeToComeToWhatTheyMissTheRankIn) {
  for (const int others : {0, 4}) {
    WatchPlace place = alone("GPU-a");
    place.local_size = 2;
    RankBoard neighbour(place, 0);
    place.local_rank = 1;
    place.others = others;
    std::thread step([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1200));
      neighbour.report().set_wait("gradient bucket 1 of 3");
    });
    testing::internal::CaptureStderr();
    watch_rank({"/bin/sh", "-c", "kill -KILL $$"}, {}, place);
    step.join();
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find(" (Killed), while rank 0 waited in gradient bucket 1 of 3\n") !=
                  std::string::npos,
              others == 0)
        << text;
  }
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
