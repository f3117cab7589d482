#include "launch/rank_watch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/process_table.h"
#include "base/standstill.h"
#include "launch/end_notice.h"
#include "launch/exec_report.h"
#include "launch/signal_queue.h"
#include "parallel/mpi/mpi_start_watch.h"

namespace tandem {
namespace {

// A handler reaches nothing but static storage.
std::atomic<std::uint64_t> g_received{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::uint64_t bit_of(int number) { return std::uint64_t{1} << static_cast<unsigned>(number); }

/// To this process's launcher; -1: none.
std::atomic<int> g_launcher{-1};
static_assert(std::atomic<int>::is_always_lock_free);

/// mpirun sends SIGTERM before SIGKILL, which leaves no time for a word.
void handle(int number) {
  const int error = errno;
  const bool is_first = (g_received.fetch_or(bit_of(number)) & bit_of(number)) == 0;
  if (number == SIGTERM && is_first && g_launcher >= 0) AskedToEndNotice::send(g_launcher);
  errno = error;
}

/// Has the launcher hear of SIGTERM while it lives.
class HeardEnd {
 public:
  explicit HeardEnd(const std::string& job) : notice_(job) { g_launcher = notice_.socket(); }
  ~HeardEnd() { g_launcher = -1; }
  HeardEnd(const HeardEnd&) = delete;
  HeardEnd& operator=(const HeardEnd&) = delete;

 private:
  AskedToEndNotice notice_;
};

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

/// Between looks at ranks that stand still.
constexpr std::chrono::milliseconds look_interval{100};

/// For others that a signal ended at the same moment. mpirun learns of a rank's end by that of its
/// watcher, and so ends no rank meanwhile.
constexpr std::chrono::milliseconds others_turn{200};

/// For ranks that are left to come to where they miss the one that was ended. Short where ranks of
/// other hosts may find it too, and speak of it.
std::chrono::milliseconds others_wait(const WatchPlace& place) {
  constexpr std::chrono::milliseconds a_moment(300);
  constexpr std::chrono::milliseconds a_slow_step(2000);
  return place.others > 0 ? a_moment : a_slow_step;
}

/// Until the rank tells another one: such that all of a host may stand still for as long as ranks
/// wait for others in MPI_Init.
double timeout_at_start() {
  constexpr double share = 1.0 / 1.2;  // longest_standstill() makes the whole of it, from 12 s on
  try {
    return share * mpi_start_seconds([](const char* name) { return std::getenv(name); });
  } catch (const InputError&) {
    return share * usual_start_seconds;  // the rank says so
  }
}

/// Whether nobody on this host is left that could notice that this rank is stopped, and nobody has
/// meant it. Where SIGTERM came, mpirun is ending the job.
bool is_left_alone(const RankBoard& board) {
  return !board.any(RankState::runs) && !board.any(RankState::unknown) && !was_received(SIGTERM) &&
         !has_stopped_ancestor();
}

/// Returns the rank's wait status once it has ended; none where it and all others of this host have
/// stood still for too long.
std::optional<int> wait_for_end(pid_t rank, RankBoard& board) {
  Standstill standstill(Standstill::Clock::now());
  for (bool stopped = false;;) {
    int status = 0;
    const pid_t changed =
        ::waitpid(rank, &status, WUNTRACED | WCONTINUED | (stopped ? WNOHANG : 0));
    TANDEM_CHECK(changed >= 0 || errno == EINTR, "the rank was waited for elsewhere");
    if (changed == 0) {
      std::this_thread::sleep_for(look_interval);
      const auto stood = standstill.look(is_left_alone(board), Standstill::Clock::now());
      const Standstill::Seconds timeout(board.report().timeout_seconds());
      if (stood > longest_standstill(timeout)) return std::nullopt;
    } else if (changed == rank && WIFSTOPPED(status)) {
      stopped = true;
      standstill = Standstill(Standstill::Clock::now());
      board.set(RankState::stopped, WSTOPSIG(status));
    } else if (changed == rank && WIFCONTINUED(status)) {
      stopped = false;
      board.set(RankState::runs);
    } else if (changed == rank) {
      return status;
    }
  }
}

/// Says that all ranks of this host stand still, once for them all, and ends this one.
void end_stopped(pid_t rank, RankBoard& board) {
  const Standstill::Seconds timeout(board.report().timeout_seconds());
  const auto at_once = [] {};
  board.say_once(RankState::stopped, at_once, [&](const std::vector<SignalledRank>& ranks) {
    log_error("{}, and none of this host's ranks has gone on for {:g} s; the job is ended",
              signalled_text(ranks, "stopped"), longest_standstill(timeout).count());
    board.claims().claim(HostClaim::told_error);
  });
  static_cast<void>(::kill(rank, SIGKILL));  // fails only where it has ended just now
  while (::waitpid(rank, nullptr, 0) != rank) {
    TANDEM_CHECK(errno == EINTR, "the rank was waited for elsewhere");
  }
  board.set(RankState::ended);
}

/// Gives this host's ranks time to come to where they wait for the one that has ended.
void wait_for_waiting_ranks(const RankBoard& board, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (board.waiting().empty() && board.any(RankState::runs) &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

/// Says that a signal ended the rank, once for all that met one at this moment, unless the job's
/// end brought it: who ends a job sends the same signal to this process, or SIGTERM before SIGKILL.
void tell_of_signal(int number, RankBoard& board, const WatchPlace& place) {
  const bool by_jobs_end =
      was_received(number) || (was_received(SIGTERM) && board.any(RankState::killed));
  board.set(by_jobs_end ? RankState::ended : RankState::killed, number);
  if (by_jobs_end) return;
  board.claims().claim(HostClaim::killed_rank);
  const auto wait = [&] {
    std::this_thread::sleep_for(others_turn);
    wait_for_waiting_ranks(board, others_wait(place));
  };
  board.say_once(RankState::killed, wait, [&](const std::vector<SignalledRank>& ranks) {
    log_error("{}{}", signalled_text(ranks, "ended"), waiting_text(board.waiting()));
    board.claims().claim(HostClaim::told_error);
  });
}

}  // namespace

int watch_rank(const std::vector<std::string>& words, const EnvironmentChanges& changes,
               const WatchPlace& place) {
  RankBoard board(place, process_rank());
  board.report().set_timeout(timeout_at_start());
  notify_begin(place.job, process_rank(), board.claims_descriptor());
  EnvironmentChanges all = changes;
  all.push_back(board.report_variable());
  std::vector<std::string> command = words;
  std::vector<std::string> environment = changed_environment(all);
  const std::vector<char*> arguments = exec_array(command);
  const std::vector<char*> variables = exec_array(environment);
  ExecReport exec_report;
  const HeardEnd heard_end(place.job);
  const PassedSignals signals;
  const pid_t parent = ::getpid();
  const pid_t rank = ::fork();
  if (rank < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (rank == 0) become(arguments, variables, parent, signals, exec_report);
  board.set_process(rank);
  signals.open_to(rank);
  const std::optional<int> status = wait_for_end(rank, board);
  if (!status) {
    end_stopped(rank, board);
    notify_end(place.job, ExitCode::failure);
    return ExitCode::failure;
  }
  if (WIFEXITED(*status)) {
    board.set(RankState::ended);
    exec_report.require_started(command[0]);
    const int code = WEXITSTATUS(*status);
    notify_end(place.job, code);
    return code;
  }
  tell_of_signal(WTERMSIG(*status), board, place);
  const int code = ExitCode::of_signal(WTERMSIG(*status));
  notify_end(place.job, code);
  return code;
}

}  // namespace tandem
