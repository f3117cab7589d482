#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tandem {

/// Variables to set on top of this process's environment.
using EnvironmentChanges = std::vector<std::pair<std::string, std::string>>;

/// A short program to run: no shell is involved.
struct ProgramCall {
  std::vector<std::string> command;  ///< [0] is looked for on PATH
  std::string input{};               ///< its standard input, at most 4096 bytes
  EnvironmentChanges environment{};
  double timeout_seconds = 10.0;
};

/// How it ended.
struct ProgramEnd {
  int code = 0;        ///< exit code; 128 + signal where a signal ended it
  std::string output;  ///< standard output and error together
  bool timed_out = false;
};

/// Runs the program and waits for its end, not for that of daemons that it leaves behind. After the
/// time-out it is killed, with its process group. Throws SystemError where it cannot be started.
ProgramEnd run_program(const ProgramCall& call);

/// The environment of this process with the changes, as NAME=VALUE each.
std::vector<std::string> changed_environment(const EnvironmentChanges& changes);

/// Pointers to the texts, and a null pointer behind them, as exec functions want it. The texts must
/// outlive it.
std::vector<char*> exec_array(std::vector<std::string>& texts);

/// Where PATH has the program; empty where it has none.
std::string program_on_path(const std::string& name);

/// This program's own file.
std::string own_program();

}  // namespace tandem
