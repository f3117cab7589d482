#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace tandem {

/// The letter with which /proc tells the state of a process: 'R', 'S', 'T' (stopped), ...; 'Z'
/// where it has ended and nobody has taken notice, 0 where it is gone altogether.
inline char process_state(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE ...", and a name may hold anything.
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
}

/// Whether it has ended. Where no init process takes notice of orphans, as in containers, their
/// entries stay.
inline bool has_ended(pid_t process) {
  const char state = process_state(process);
  return state == '\0' || state == 'Z' || state == 'X';
}

}  // namespace tandem
