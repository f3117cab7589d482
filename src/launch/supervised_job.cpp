#include "launch/supervised_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/exit_code.h"
#include "base/log.h"
#include "base/process_table.h"
#include "base/subprocess.h"
#include "launch/end_notice.h"
#include "launch/exec_report.h"
#include "launch/mpirun_folder.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// In the child.
[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& variables,
                         const sigset_t& mask, pid_t parent, const ExecReport& report) {
  if (::setsid() < 0) report.fail("setsid");
  report.die_with_parent(SIGTERM, parent);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) report.fail("/dev/null");
  if (::sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) report.fail("sigprocmask");
  ::execvpe(arguments[0], arguments.data(), variables.data());
  report.fail();
}

/// Fails only where the process has ended just now.
void send(pid_t process, int number) { static_cast<void>(::kill(process, number)); }

/// Nobody ends the ranks where mpirun's group is gone, and some are in a group of their own.
void kill_all(pid_t starter) {
  for (const pid_t rank : own_processes_below(starter)) send(rank, SIGKILL);
  send(-starter, SIGKILL);
}

/// What a starter that has ended leaves running in its session, as Open MPI's mpirun the ssh that
/// waits for a host which does not answer: it would keep this process's output open.
void end_left_behind(pid_t starter) {
  for (const pid_t process : all_processes()) {
    if (::getsid(process) == starter) send(process, SIGTERM);
  }
}

/// Whether a line can be written now: a terminal may be held, a pipe be full or have lost its
/// reader, and neither is to keep a signal from the ranks.
bool can_speak() {
  pollfd error{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  return ::poll(&error, 1, 0) == 1 && error.revents == POLLOUT;
}

/// For which a request is repeated that may have come before there were ranks.
constexpr std::chrono::seconds longest_repetition{10};

/// Hands stop requests on, each more pressing than the last.
class StopRequests {
 public:
  explicit StopRequests(pid_t process) : process_(process) {}

  /// `begun`: whether a rank had, before the call; `ranks_stopped`: as they were asked to.
  void add(int number, bool begun, bool ranks_stopped) {
    if (first_ != 0 && number == SIGUSR1) return;
    const Clock::time_point now = Clock::now();
    // Terminals and batch systems send several at once.
    if (first_ != 0 && now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    if (first_ == 0) {
      first_ = number;
      hand_on(begun);
      tell();
    } else if (!insisted_) {
      insisted_ = true;
      // Open MPI 4.1 crashes at it where it winds down; there is nothing left to hurry then.
      if (!ranks_stopped) send(process_, SIGTERM);
    } else {
      kill_all(process_);
    }
  }

  /// Several times a second: before it has started anybody mpirun takes the signal and forgets it,
  /// and so does its child that is about to become a rank.
  void repeat(bool begun) {
    if (first_ == 0 || insisted_ || heard_) return;
    hand_on(begun || Clock::now() - last_ > longest_repetition);
  }

  int first() const { return first_; }
  /// Whether these requests, and nobody else, ended mpirun by such a signal.
  bool explains(int number) const { return insisted_ || (first_ != 0 && number == SIGUSR1); }

 private:
  void hand_on(bool last) {
    heard_ = last;
    send(process_, SIGUSR1);
    // Not every mpirun hands it on. To a rank it is the same wish however often it comes, and the
    // wish of one rank is that of all.
    for (const pid_t rank : own_processes_below(process_)) send(rank, SIGUSR1);
  }

  void tell() const {
    if (!can_speak()) return;
    log_info(
        "signal {} ({}): the ranks are asked to stop; another SIGINT or SIGTERM, a second or more "
        "later, ends them at once",
        first_, ::strsignal(first_));
  }

  pid_t process_;
  int first_ = 0;
  bool insisted_ = false;
  bool heard_ = false;  // by a rank, or nobody is waited for any longer
  Clock::time_point last_{};
};

/// Ends a starter that does not end the job after a rank has failed.
class StuckStarter {
 public:
  StuckStarter(pid_t process, std::string name, Standstill::Seconds patience)
      : process_(process),
        name_(std::move(name)),
        patience_(patience),
        since_failure_(Standstill::Clock::now()) {}

  /// At least ten times a second.
  void look(bool failed) {
    const auto waited = since_failure_.look(failed, Standstill::Clock::now());
    if (ended_ || !failed || waited < patience_) return;
    ended_ = true;
    // Open MPI 4.1 crashes at a SIGTERM then.
    kill_all(process_);
    std::string line = fmt::format(
        "{} has not ended the job {:g} s after a rank failed, as where a host is gone; it is "
        "killed",
        name_, patience_.count());
    if (can_speak()) {
      log_warning("{}", line);
    } else {
      unsaid_ = std::move(line);
    }
  }
  bool ended() const { return ended_; }
  /// The line that nobody took then; empty: none.
  const std::string& unsaid() const { return unsaid_; }

 private:
  pid_t process_;
  std::string name_;
  Standstill::Seconds patience_;
  Standstill since_failure_;
  bool ended_ = false;
  std::string unsaid_;
};

/// Ends a starter that was asked to stop before it had started a rank, and goes on.
class DeafStarter {
 public:
  DeafStarter(pid_t process, std::string name)
      : process_(process), name_(std::move(name)), since_request_(Standstill::Clock::now()) {}

  /// At least ten times a second.
  void look(bool is_waited_for) {
    const auto waited = since_request_.look(is_waited_for, Standstill::Clock::now());
    if (!is_waited_for) return;
    if (waited >= patience && !told_) {
      told_ = true;
      send(process_, SIGTERM);
      if (can_speak()) {
        log_warning("{} has started no rank and does not stop; it is ended", name_);
      }
    }
    if (waited >= patience + to_end && !killed_) {
      killed_ = true;
      kill_all(process_);
    }
  }
  bool ended() const { return told_; }

 private:
  static constexpr Standstill::Seconds patience{6};
  static constexpr Standstill::Seconds to_end{3};

  pid_t process_;
  std::string name_;
  Standstill since_request_;
  bool told_ = false;
  bool killed_ = false;
};

}  // namespace

JobEnd run_job(const std::vector<std::string>& words, const std::string& job,
               Standstill::Seconds patience, const SignalQueue& signals, RanksOf ranks,
               const EnvironmentChanges& changes) {
  EndNotices ends(job);
  std::vector<std::string> command = words;
  std::vector<std::string> environment = changed_environment(changes);
  const std::vector<char*> arguments = exec_array(command);
  const std::vector<char*> variables = exec_array(environment);
  ExecReport report;
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (process == 0) become(arguments, variables, signals.mask_before(), parent, report);
  StopRequests requests(process);
  StuckStarter stuck(process, command[0], patience);
  DeafStarter deaf(process, command[0]);
  const bool all_are_heard = ranks == RanksOf::this_host && ends.listens();
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) != process) {
    const int number = signals.take(std::chrono::milliseconds(100));
    ends.take();
    requests.repeat(ends.begun());
    if (number != 0) requests.add(number, ends.begun(), ends.stopped());
    stuck.look(ends.failure() != 0);
    deaf.look(all_are_heard && requests.first() != 0 && !ends.begun());
  }
  ends.take_rest();
  report.require_started(command[0]);
  if (WIFSIGNALED(status)) remove_mpirun_folder(process);
  if (requests.first() != 0 && !ends.begun()) end_left_behind(process);
  const int own_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  const bool by_others = WIFSIGNALED(status) && !stuck.ended() && !deaf.ended() &&
                         !requests.explains(WTERMSIG(status));
  return {.code = ends.stopped()  ? ExitCode::stopped
                  : stuck.ended() ? ends.failure()
                                  : own_code,
          .stop_signal = requests.first(),
          .rank_code = ends.failure(),
          .killed_by = by_others ? WTERMSIG(status) : 0,
          .unsaid = stuck.unsaid(),
          .words = {.heard = ends.listens(),
                    .begun = ends.begun(),
                    .told = ends.told(),
                    .lost = ends.lost(),
                    .ended_from_outside = ends.ended_from_outside()}};
}

}  // namespace tandem
