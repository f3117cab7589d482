#include "launch/rank_watch.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "base/log.h"
#include "base/process_place.h"
#include "launch/exec_report.h"

namespace tandem {
namespace {

// A handler reaches nothing but static storage.
std::atomic<std::uint64_t> g_received{0};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

std::uint64_t bit_of(int number) { return std::uint64_t{1} << static_cast<unsigned>(number); }

void handle(int number) { g_received |= bit_of(number); }

/// Whether the signal was sent to this process too, as all are by which a job is stopped.
bool was_received(int number) { return (g_received & bit_of(number)) != 0; }

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
                         pid_t parent, const ExecReport& report) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) report.fail("prctl");
  if (::getppid() != parent) ::_exit(126);  // which was killed before it could be watched
  ::execve(arguments[0], arguments.data(), variables.data());
  report.fail();
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
  ExecReport report;
  const pid_t parent = ::getpid();
  const pid_t rank = ::fork();
  if (rank < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (rank == 0) become(arguments, variables, parent, report);
  int status = 0;
  while (::waitpid(rank, &status, 0) != rank) {
    TANDEM_CHECK(errno == EINTR, "the rank was waited for elsewhere");
  }
  report.require_started(command[0]);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int number = WTERMSIG(status);
  if (!was_received(number)) {
    log_error("{} was ended by signal {} ({})", place_text(process_rank(), device, step.value()),
              number, strsignal(number));
  }
  return 128 + number;
}

}  // namespace tandem
