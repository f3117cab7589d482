#pragma once

#include <memory>
#include <string>

namespace tandem {

/// This rank gets on with its work, or waits for something that has a time-out of its own. Called a
/// few times a second at least, for every layer, and for every kernel that is tried. From any
/// thread; costs next to nothing.
void heartbeat() noexcept;

/// Beats until the descriptor takes bytes, or never will: a terminal that is held (Ctrl-S), or a
/// pager that nobody scrolls, may have who writes to it wait for as long as a person likes. To
/// await_file_work() that is something that moves.
void beat_until_writable(int descriptor) noexcept;

/// Ends the process where its heart stands still, as in a dead lock: a thread of its own looks.
/// Others that wait for this rank find that first and name it, so this is for the case that all
/// stand still in some way that nobody sees, and for a process that is alone.
///
/// The limit is what other ranks wait (`timeout_seconds`, 0: for ever), by a fifth and two
/// seconds at least longer, or silence_limit() of the longest silence so far of this phase. By each
/// of these limits the ranks take turns (in_turn()). Time in which the whole process was stopped
/// does not count.
///
/// Its words are last words (base/last_words.h) and the end.
class HeartbeatWatch {
 public:
  /// `start_seconds`: what the limit is at least until the first begin_phase(), for hosts that
  /// start slowly.
  HeartbeatWatch(double timeout_seconds, int rank, double start_seconds = 0.0);
  /// Waits for nothing: an error that brings it may be one that this process dies of.
  ~HeartbeatWatch();
  HeartbeatWatch(const HeartbeatWatch&) = delete;
  HeartbeatWatch& operator=(const HeartbeatWatch&) = delete;

  /// Work of another kind begins, of which earlier silences tell nothing. `advice`: the end of the
  /// line from here on, as "; go on with --resume".
  void begin_phase(std::string advice = {});

 private:
  struct State;

  std::shared_ptr<State> state_;  // with the thread that looks
};

}  // namespace tandem
