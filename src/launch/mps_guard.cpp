#include "launch/mps_guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <deque>

#include "base/error.h"
#include "base/log.h"
#include "base/subprocess.h"
#include "launch/detach.h"
#include "launch/mps_daemon.h"
#include "launch/mps_folder.h"

namespace tandem {
namespace {

void ignore_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGPIPE}) {
    TANDEM_CHECK(std::signal(number, SIG_IGN) != SIG_ERR, "signal {} cannot be ignored", number);
  }
}

}  // namespace

void start_mps_guard(const std::filesystem::path& folder, const std::vector<std::string>& daemons) {
  std::vector<std::string> command{own_program(), "mps-guard", folder.string()};
  command.insert(command.end(), daemons.begin(), daemons.end());
  const std::vector<char*> arguments = exec_array(command);
  const pid_t child = ::fork();
  if (child < 0) system_error("cannot fork: {}", std::strerror(errno));
  if (child == 0) {
    detach();
    // Twice, so that init and not the launcher is the guard's parent.
    const pid_t guard = ::fork();
    if (guard != 0) ::_exit(guard < 0 ? 126 : 0);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  TANDEM_CHECK(::waitpid(child, &status, 0) == child && status == 0,
               "the MPS guard does not start");
}

void clean_up_job(const std::filesystem::path& path) {
  const MpsFolder folder(path);
  for (int at = 0; std::filesystem::exists(folder.pipe_directory(at)); ++at) {
    end_mps_daemon(folder.pipe_directory(at));
  }
  folder.remove();
}

namespace {

/// Batch systems kill guards too at a job's end. What fails here is no fault of this job.
void clean_up_others(const MpsFolder& folder) {
  try {
    for (const std::filesystem::path& other : folder.abandoned()) clean_up_job(other);
  } catch (const std::exception& error) {
    log_debug("what an earlier job left cannot be cleared up: {}", error.what());
  }
}

}  // namespace

int guard_mps(const std::filesystem::path& path, const std::vector<std::string>& daemons) {
  ignore_signals();
  const MpsFolder folder(path);
  {
    std::deque<MpsDaemon> running;
    try {
      for (std::size_t at = 0; at < daemons.size(); ++at) {
        const int number = static_cast<int>(at);
        running.emplace_back(folder.pipe_directory(number), folder.log_directory(number),
                             daemons[at]);
      }
      folder.report_ready();
    } catch (const std::exception& error) {
      folder.report_failed(error.what());
    }
    clean_up_others(folder);
    folder.wait_until_left();
  }
  folder.remove();
  return 0;
}

}  // namespace tandem
