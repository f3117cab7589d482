#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/subprocess.h"

namespace tandem {

/// How a child ended.
struct ChildEnd {
  int code = 0;  ///< exit code; 128 + signal where a signal ended it
  bool timed_out = false;
  bool stopped = false;  ///< because `stop` said so
};

/// A program to run to its end.
struct ChildCall {
  std::vector<std::string> command;  ///< [0] a path, or looked for on PATH
  std::filesystem::path output;      ///< gets standard output and error
  double timeout_seconds = 0.0;
  EnvironmentChanges environment{};
  std::function<bool()> stop{};  ///< asked some times a second: end it now
};

/// Runs the program in a process group of its own, so that the terminal's Ctrl-C reaches this
/// process alone, and returns once it has ended. To end it early it gets SIGTERM, again some
/// seconds later, which it may take for "now", and at last SIGKILL with its group. Where this
/// process dies, it gets SIGTERM too. Throws SystemError where it cannot be started.
ChildEnd run_child(const ChildCall& call);

}  // namespace tandem
