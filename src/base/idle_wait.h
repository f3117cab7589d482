#pragma once

#include <chrono>
#include <thread>

namespace tandem {

/// The pauses of a loop that looks for what another process or a device does. What comes soon is
/// seen at once; later the core is offered to others between two looks, since ranks may outnumber
/// the cores and the one that is waited for may need this one; after long waiting this thread
/// sleeps between them, so that it costs next to nothing.
class IdleWait {
 public:
  using Clock = std::chrono::steady_clock;

  /// What others change in memory: a sleep ends some 100 us later, which is little beside that.
  static constexpr std::chrono::milliseconds attentive_to_memory{1};
  /// MPI may move messages only while it is asked for them, a part at each look, so that sleeps
  /// between looks slow a large one down, which matters little beside so long a wait.
  static constexpr std::chrono::milliseconds attentive_to_messages{2000};

  /// `attentive`: for how long it does not sleep.
  explicit IdleWait(Clock::duration attentive) : attentive_(attentive) {}

  /// After a look that found nothing.
  void pause() {
    if (++looks_ <= looks_at_once) return;
    const Clock::time_point now = Clock::now();
    if (looks_ == looks_at_once + 1) start_ = now;
    if (now - start_ < attentive_) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  /// After one that found something, though not all that is waited for.
  void restart() { looks_ = 0; }

 private:
  static constexpr int looks_at_once = 200;

  Clock::duration attentive_;
  int looks_ = 0;
  Clock::time_point start_;  // of the pauses
};

}  // namespace tandem
