#include "launch/supervised_job.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/error.h"
#include "base/subprocess.h"
#include "launch/own_processes.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array stop_signals{SIGINT, SIGTERM, SIGHUP};

/// While it lives, the stop signals and SIGCHLD wait to be taken.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigemptyset(&set_);
    for (const int number : stop_signals) sigaddset(&set_, number);
    sigaddset(&set_, SIGCHLD);
    TANDEM_CHECK(::sigprocmask(SIG_BLOCK, &set_, &before_) == 0, "signals cannot be blocked");
  }
  ~BlockedSignals() { static_cast<void>(::sigprocmask(SIG_SETMASK, &before_, nullptr)); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

  const sigset_t& before() const { return before_; }

  /// The next signal, or 0 where none comes for a tenth of a second.
  int take() const {
    const timespec patience{.tv_sec = 0, .tv_nsec = 100'000'000};
    const int number = ::sigtimedwait(&set_, nullptr, &patience);
    return number > 0 ? number : 0;
  }

 private:
  sigset_t set_{};
  sigset_t before_{};
};

/// In the child.
[[noreturn]] void become(const std::vector<char*>& arguments, const sigset_t& mask, pid_t parent) {
  if (::setsid() < 0 || ::prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) ::_exit(126);
  if (::getppid() != parent) ::_exit(126);  // which was killed before it could be watched
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) ::_exit(126);
  if (::sigprocmask(SIG_SETMASK, &mask, nullptr) != 0) ::_exit(126);
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

/// Hands stop requests on, each more pressing than the last.
class StopRequests {
 public:
  explicit StopRequests(pid_t process) : process_(process) {}

  void add(int number) {
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

JobEnd run_job(const std::vector<std::string>& words) {
  std::vector<std::string> command = words;
  const std::vector<char*> arguments = exec_array(command);
  const BlockedSignals signals;
  const pid_t parent = ::getpid();
  const pid_t process = ::fork();
  if (process < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (process == 0) become(arguments, signals.before(), parent);
  StopRequests requests(process);
  int status = 0;
  while (::waitpid(process, &status, WNOHANG) != process) {
    const int number = signals.take();
    if (number != 0 && number != SIGCHLD) requests.add(number);
  }
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (code == 127) system_error("{} cannot be started", command[0]);
  return {.code = code, .stop_signal = requests.first()};
}

}  // namespace tandem
