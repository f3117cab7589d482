#include "launch/supervised_job.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/subprocess.h"
#include "launch/exec_report.h"
#include "launch/own_processes.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

/// In the child.
[[noreturn]] void become(const std::vector<char*>& arguments, const sigset_t& mask, pid_t parent,
                         const ExecReport& report) {
  if (::setsid() < 0) report.fail("setsid");
  report.die_with_parent(SIGTERM, parent);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) report.fail("/dev/null");
  if (::sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) report.fail("sigprocmask");
  ::execvp(arguments[0], arguments.data());
  report.fail();
}

/// Hands stop requests on, each more pressing than the last.
class StopRequests {
 public:
  explicit StopRequests(pid_t process) : process_(process) {}

  void add(int number) {
    if (first_ != 0 && number == SIGUSR1) return;
    const Clock::time_point now = Clock::now();
    // Terminals and batch systems send several at once.
    if (first_ != 0 && now - last_ < std::chrono::seconds(1)) return;
    last_ = now;
    if (first_ == 0) {
      first_ = number;
      send(process_, SIGUSR1);
      // Not every mpirun hands it on. A rank that gets it twice within a second counts it once, and
      // the wish of one rank is that of all.
      for (const pid_t rank : own_processes_below(process_)) send(rank, SIGUSR1);
    } else if (!insisted_) {
      insisted_ = true;
      send(process_, SIGTERM);
    } else {
      // Nobody ends them where mpirun's group is gone, and some are in a group of their own.
      for (const pid_t rank : own_processes_below(process_)) send(rank, SIGKILL);
      send(-process_, SIGKILL);
    }
  }
  int first() const { return first_; }

 private:
  /// Fails only where it has ended just now.
  static void send(pid_t process, int number) { static_cast<void>(::kill(process, number)); }

  pid_t process_;
  int first_ = 0;
  bool insisted_ = false;
  Clock::time_point last_{};
};

}  // namespace

JobEnd run_job(const std::vector<std::string>& words, const SignalQueue& signals) {
  std::vector<std::string> command = words;
  const std::vector<char*> arguments = exec_array(command);
  ExecReport report;
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (process == 0) become(arguments, signals.mask_before(), parent, report);
  StopRequests requests(process);
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) != process) {
    if (const int number = signals.take(std::chrono::milliseconds(100))) requests.add(number);
  }
  report.require_started(command[0]);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {.code = code, .stop_signal = requests.first()};
}

}  // namespace tandem
