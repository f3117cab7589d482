#include "launch/exec_report.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

/// What goes through the pipe. A literal is at the same address on both sides of a fork.
struct Failure {
  int reason;
  const char* step;
};

}  // namespace

ExecReport::ExecReport() {
  if (::pipe2(pipe_.data(), O_CLOEXEC) != 0) {
    system_error("no pipe can be made: {}", std::strerror(errno));
  }
}

ExecReport::~ExecReport() {
  close_writer();
  static_cast<void>(::close(pipe_[0]));  // nothing was written that could be lost
}

void ExecReport::close_writer() {
  if (pipe_[1] >= 0) static_cast<void>(::close(pipe_[1]));
  pipe_[1] = -1;
}

void ExecReport::fail(const char* step) const {
  const Failure failure{errno, step};
  // Where even this fails, the exit code is all that the parent sees.
  static_cast<void>(::write(pipe_[1], &failure, sizeof failure) == sizeof failure);
  ::_exit(127);
}

void ExecReport::die_with_parent(int number, pid_t parent) const {
  if (::prctl(PR_SET_PDEATHSIG, number) != 0) fail("prctl");
  if (::getppid() != parent) ::_exit(126);
}

void ExecReport::require_started(const std::string& program) {
  close_writer();
  Failure failure{};
  ssize_t count = 0;
  do {
    count = ::read(pipe_[0], &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  // exec closes the child's end: then there is nothing to read.
  if (count != sizeof failure) return;
  system_error("{} cannot be started: {}{}{}", program, failure.step == nullptr ? "" : failure.step,
               failure.step == nullptr ? "" : ": ", std::strerror(failure.reason));
}

}  // namespace tandem
