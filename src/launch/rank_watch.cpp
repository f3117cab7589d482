#include "launch/rank_watch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/process_place.h"

namespace tandem {
namespace {

// A handler reaches nothing but static storage.
volatile std::sig_atomic_t g_told_to_end = 0;

void handle(int number) {
  if (number == SIGTERM || number == SIGINT || number == SIGUSR1) g_told_to_end = 1;
}

/// Handlers, unlike ignored signals, are back to the default behind exec.
void let_signals_pass() {
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    TANDEM_CHECK(::sigaction(number, &action, nullptr) == 0, "signal {} cannot be caught", number);
  }
}

[[noreturn]] void become(const std::vector<char*>& arguments, const std::vector<char*>& variables,
                         pid_t parent) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != parent) ::_exit(126);
  ::execve(arguments[0], arguments.data(), variables.data());
  ::_exit(127);
}

}  // namespace

int watch_rank(const std::vector<std::string>& words, const EnvironmentChanges& changes,
               const std::string& device) {
  const ChildStep step;
  EnvironmentChanges all = changes;
  all.push_back(step.variable());
  std::vector<std::string> command = words;
  std::vector<std::string> environment = changed_environment(all);
  const std::vector<char*> arguments = exec_array(command);
  const std::vector<char*> variables = exec_array(environment);
  let_signals_pass();
  const pid_t parent = ::getpid();
  const pid_t rank = ::fork();
  if (rank < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (rank == 0) become(arguments, variables, parent);
  int status = 0;
  while (::waitpid(rank, &status, 0) != rank) {
    TANDEM_CHECK(errno == EINTR, "the rank was waited for elsewhere");
  }
  if (WIFEXITED(status)) {
    const int code = WEXITSTATUS(status);
    if (code == 127) system_error("{} cannot be started", command[0]);
    return code;
  }
  const int number = WTERMSIG(status);
  if (g_told_to_end == 0) {
    log_error("{} was ended by signal {} ({})", place_text(process_rank(), device, step.value()),
              number, strsignal(number));
  }
  return 128 + number;
}

}  // namespace tandem
