#include "tune/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto poll_interval = std::chrono::milliseconds(20);
constexpr auto between_signals = std::chrono::seconds(3);
constexpr int terminations = 4;  // before SIGKILL

void redirect(const char* path, int flags, int descriptor) {
  const int file = ::open(path, flags, 0600);
  if (file < 0 || ::dup2(file, descriptor) < 0) ::_exit(126);
}

[[noreturn]] void become(char* const* arguments, char* const* environment, const char* output,
                         pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(126);  // it died before that was set
  redirect("/dev/null", O_RDONLY, STDIN_FILENO);
  redirect(output, O_WRONLY | O_CREAT | O_TRUNC, STDOUT_FILENO);
  ::dup2(STDOUT_FILENO, STDERR_FILENO);
  ::execvpe(arguments[0], arguments, environment);
  ::_exit(127);
}

pid_t start(const ChildCall& call) {
  std::vector<std::string> words = call.command;
  const std::vector<char*> arguments = exec_array(words);
  std::vector<std::string> variables = changed_environment(call.environment);
  const std::vector<char*> environment = exec_array(variables);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) system_error("'{}' cannot be started: {}", words[0], std::strerror(errno));
  if (child == 0) become(arguments.data(), environment.data(), call.output.c_str(), parent);
  // Here too, so that the group is there before anyone signals it; the child may have done it.
  static_cast<void>(::setpgid(child, child));
  return child;
}

/// Signals of growing weight, one every some seconds.
class Ending {
 public:
  explicit Ending(pid_t child) : child_(child) {}

  void press_on() {
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    next_ = now + between_signals;
    if (sent_++ < terminations) {
      ::kill(child_, SIGTERM);
    } else {
      ::kill(-child_, SIGKILL);
    }
  }

 private:
  pid_t child_;
  int sent_ = 0;
  Clock::time_point next_{};
};

}  // namespace

ChildEnd run_child(const ChildCall& call) {
  TANDEM_CHECK(!call.command.empty(), "no command");
  const Clock::time_point start_time = Clock::now();
  const pid_t child = start(call);
  Ending ending(child);
  ChildEnd end;
  int status = 0;
  for (pid_t found = 0; (found = ::waitpid(child, &status, WNOHANG)) != child;) {
    if (found < 0 && errno != EINTR) system_error("waitpid failed: {}", std::strerror(errno));
    const std::chrono::duration<double> took = Clock::now() - start_time;
    end.timed_out = end.timed_out || took.count() > call.timeout_seconds;
    end.stopped = end.stopped || (call.stop && call.stop());
    if (end.timed_out || end.stopped) ending.press_on();
    std::this_thread::sleep_for(poll_interval);
  }
  end.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return end;
}

}  // namespace tandem
