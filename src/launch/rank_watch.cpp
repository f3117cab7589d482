#include "launch/rank_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/process_place.h"
#include "launch/exec_report.h"
#include "launch/signal_queue.h"

namespace tandem {
namespace {

// A handler reaches nothing but static storage.
std::atomic<std::uint64_t> g_received{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::uint64_t bit_of(int number) { return std::uint64_t{1} << static_cast<unsigned>(number); }

void handle(int number) { g_received |= bit_of(number); }

/// Whether the signal was sent to this process too, as all are by which a job is stopped.
bool was_received(int number) { return (g_received & bit_of(number)) != 0; }

constexpr std::array passed_signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

void set_handler(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  TANDEM_CHECK(::sigaction(number, &action, nullptr) == 0, "signal {} cannot be caught", number);
}

/// Lets signals reach the rank without ending this process, but for those that it was started to
/// ignore: those the rank ignores too. They are blocked from here until there is a rank that can
/// meet them, since a handler would swallow what comes before.
class PassedSignals {
 public:
  PassedSignals() {
    sigemptyset(&set_);
    for (const int number : passed_signals) {
      if (!is_ignored(number)) sigaddset(&set_, number);
    }
    TANDEM_CHECK(::sigprocmask(SIG_BLOCK, &set_, &before_) == 0, "signals cannot be blocked");
    for_each([](int number) { set_handler(number, handle); });
  }

  /// In the child, just before exec: what has come to it meanwhile takes its default action.
  void restore(const ExecReport& report) const {
    for_each([](int number) { static_cast<void>(std::signal(number, SIG_DFL)); });
    if (::sigprocmask(SIG_SETMASK, &before_, nullptr) != 0) report.fail("sigprocmask");
  }

  /// In the parent: hands on what came while there was no rank.
  void open_to(pid_t rank) const {
    const timespec none{};
    for (int number = 0; (number = ::sigtimedwait(&set_, nullptr, &none)) > 0;) {
      handle(number);
      static_cast<void>(::kill(rank, number));  // fails only where it has ended just now
    }
    TANDEM_CHECK(::sigprocmask(SIG_SETMASK, &before_, nullptr) == 0, "signals stay blocked");
  }

 private:
  void for_each(void (*visit)(int)) const {
    for (const int number : passed_signals) {
      if (sigismember(&set_, number) == 1) visit(number);
    }
  }

  sigset_t set_{};
  sigset_t before_{};
};

[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& variables,
                         pid_t parent, const PassedSignals& signals, const ExecReport& report) {
  report.die_with_parent(SIGKILL, parent);
  signals.restore(report);
  ::execve(arguments[0], arguments.data(), variables.data());
  report.fail();
}

/// For others that a signal ended at the same moment. mpirun learns of a rank's end by that of its
/// watcher, and so ends no rank meanwhile.
constexpr std::chrono::milliseconds others_turn{200};

/// Says that a signal ended the rank, once for all that met one at this moment, unless the job's
/// end brought it: who ends a job sends the same signal to this process, or SIGTERM before SIGKILL.
void tell_of_signal(int number, RankBoard& board, std::int64_t step) {
  const bool by_jobs_end =
      was_received(number) || (was_received(SIGTERM) && board.any(RankState::killed));
  board.set(by_jobs_end ? RankState::ended : RankState::killed, number, step);
  if (by_jobs_end) return;
  board.say_once(RankState::killed, others_turn, [](const std::vector<SignalledRank>& ranks) {
    log_error("{}", signalled_text(ranks));
  });
}

}  // namespace

int watch_rank(const std::vector<std::string>& words, const EnvironmentChanges& changes,
               const WatchPlace& place) {
  const ChildStep step;
  EnvironmentChanges all = changes;
  all.push_back(step.variable());
  std::vector<std::string> command = words;
  std::vector<std::string> environment = changed_environment(all);
  const std::vector<char*> arguments = exec_array(command);
  const std::vector<char*> variables = exec_array(environment);
  RankBoard board(place, process_rank());
  ExecReport exec_report;
  const PassedSignals signals;
  const pid_t parent = ::getpid();
  const pid_t rank = ::fork();
  if (rank < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (rank == 0) become(arguments, variables, parent, signals, exec_report);
  signals.open_to(rank);
  int status = 0;
  while (::waitpid(rank, &status, 0) != rank) {
    TANDEM_CHECK(errno == EINTR, "the rank was waited for elsewhere");
  }
  if (WIFEXITED(status)) {
    board.set(RankState::ended);
    exec_report.require_started(command[0]);
    return WEXITSTATUS(status);
  }
  tell_of_signal(WTERMSIG(status), board, step.value());
  return ExitCode::of_signal(WTERMSIG(status));
}

}  // namespace tandem
