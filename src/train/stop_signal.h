#pragma once

#include <csignal>
#include <string_view>

namespace tandem {

/// While one lives (at most one at a time in a process), SIGINT, SIGTERM and SIGUSR1 (which mpirun
/// and srun pass to every rank: what `tandem launch` sends) ask the program to stop instead of
/// ending it: the trainer looks at requested() and writes a checkpoint. SIGINT and SIGTERM stay
/// ignored where they were, as shells without job control start what runs in the background; else
/// their handlers from before come back on destruction.
///
/// A further SIGINT or SIGTERM more than a second after the first signal takes its default action,
/// so that a person who presses Ctrl-C again gets out. Within that second it is ignored: mpirun
/// hands SIGINT on and sends SIGTERM shortly after, which must not cost the checkpoint.
///
/// SIGUSR1 never does more than ask, and is ignored from the destruction to the process's end: it
/// comes to each rank on several ways, and one may be so slow that the rank has stopped already,
/// for its own copy or for that of another rank.
class StopSignal {
 public:
  /// What a terminal that is lost (SIGHUP) does.
  enum class Hangup {
    ends,  ///< what it does by default, where nobody has changed that
    stops  ///< the same as SIGTERM: for who has something to clear away
  };

  explicit StopSignal(Hangup hangup = Hangup::ends);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
  /// "SIGINT", "SIGTERM", "SIGHUP" or "SIGUSR1", whichever came first; "" before.
  std::string_view signal_name() const;
  /// The number of that signal; 0 before.
  int signal_number() const;

 private:
  struct sigaction previous_interrupt_ {};
  struct sigaction previous_terminate_ {};
  struct sigaction previous_hangup_ {};
  Hangup hangup_;
};

}  // namespace tandem
