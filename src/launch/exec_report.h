#pragma once

#include <sys/types.h>

#include <array>
#include <string>

namespace tandem {

/// By which a forked child tells its parent that exec, or a step before it, failed, which no exit
/// code can: a program may end with any. Made before the fork.
class ExecReport {
 public:
  /// Throws SystemError where the system has not what it takes.
  ExecReport();
  ~ExecReport();
  ExecReport(const ExecReport&) = delete;
  ExecReport& operator=(const ExecReport&) = delete;

  /// In the child, behind what failed: tells errno and ends. `step`, a literal, names what is not
  /// exec itself. Safe between fork and exec.
  [[noreturn]] void fail(const char* step = nullptr) const;

  /// In the child: `number` comes when the parent ends, for whom `parent` stands. Ends at once
  /// where it has ended already.
  void die_with_parent(int number, pid_t parent) const;

  /// In the parent, once the child has ended: throws SystemError with the reason where `program`
  /// could not be started.
  void require_started(const std::string& program);

 private:
  void close_writer();

  std::array<int, 2> pipe_{-1, -1};
};

}  // namespace tandem
