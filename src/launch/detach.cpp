#include "launch/detach.h"

#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

namespace tandem {

void detach() {
  if (::setsid() < 0 || ::chdir("/") != 0) ::_exit(126);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::dup2(nothing, stream) < 0) ::_exit(126);
  }
  // The locks above all: with them the child would wait for itself.
  // close_range() is not there before Linux 5.9, nor where a container's filter does not know it.
  ::closefrom(STDERR_FILENO + 1);
}

}  // namespace tandem
