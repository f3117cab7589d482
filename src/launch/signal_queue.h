#pragma once

#include <chrono>
#include <csignal>

namespace tandem {

/// Whether this process was started to ignore the signal, as by nohup, or ignores it since.
bool is_ignored(int number);

/// While it lives, the signals by which a job is asked to stop (SIGINT, SIGTERM, SIGHUP, SIGUSR1)
/// and SIGCHLD do nothing by themselves, but wait to be taken. A stop signal that this process was
/// started to ignore, as by nohup, stays ignored. SIGPIPE does nothing at all: whoever reads what
/// this process says may end at the same Ctrl-C.
///
/// For the thread that runs main(), before others start.
class SignalQueue {
 public:
  SignalQueue();
  /// What still waits is dropped: whatever it was to stop has ended.
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  /// The next stop signal; 0 where a child's end comes first, or nothing within the time.
  int take(std::chrono::milliseconds patience) const;

  /// The signals that were blocked before: for children.
  const sigset_t& mask_before() const { return before_; }

 private:
  sigset_t taken_{};
  sigset_t blocked_{};
  sigset_t before_{};
};

}  // namespace tandem
