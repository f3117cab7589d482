#pragma once

#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tandem {

/// What /proc tells of a process behind its name: "STATE PARENT ..."; empty where it is gone.
inline std::string process_status(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  std::getline(file, text);
  // "PID (NAME) STATE ...", and a name may hold anything.
  const std::size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? ""
                                                                      : text.substr(name_end + 2);
}

/// The letter with which /proc tells the state of a process: 'R', 'S', 'T' (stopped), ...; 'Z'
/// where it has ended and nobody has taken notice, 0 where it is gone altogether.
inline char process_state(pid_t process) {
  const std::string status = process_status(process);
  return status.empty() ? '\0' : status.front();
}

/// The process that started it, or that took it over.
inline pid_t parent_of(pid_t process) {
  std::istringstream status(process_status(process));
  char state = 0;
  pid_t parent = 0;
  status >> state >> parent;
  return parent;
}

/// Seconds that all threads of a process have computed so far; 0 where it is gone.
inline double processor_seconds(pid_t process) {
  constexpr int before = 11;  // fields, in front of the ticks in the program and in the kernel
  std::istringstream status(process_status(process));
  std::string field;
  for (int i = 0; i < before; ++i) status >> field;
  double program = 0.0;
  double kernel = 0.0;
  status >> program >> kernel;
  return (program + kernel) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

/// Seconds that all processes have computed which this one has started and whose end it has
/// noticed, with those that they in turn started and noticed.
inline double processor_seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// Whether it has ended. Where no init process takes notice of orphans, as in containers, their
/// entries stay.
inline bool has_ended(pid_t process) {
  const char state = process_state(process);
  return state == '\0' || state == 'Z' || state == 'X';
}

}  // namespace tandem
