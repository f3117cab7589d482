#pragma once

#include <chrono>

namespace tandem {

/// Counts for how long something stands still, by looks at it. Time between two looks that lie far
/// apart does not count: then this process was stopped too, as a whole job may be.
class Standstill {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  explicit Standstill(Clock::time_point now) : last_(now) {}

  /// Looks, at least ten times a second; returns the time so far, which begins anew where it moves.
  Seconds look(bool stands_still, Clock::time_point now) {
    const Seconds since = now - last_;
    last_ = now;
    if (!stands_still) {
      total_ = Seconds::zero();
    } else if (since <= longest_gap) {
      total_ += since;
    }
    return total_;
  }

 private:
  /// Ten times the looks' distance: a busy host may be late.
  static constexpr Seconds longest_gap{1.0};

  Clock::time_point last_;
  Seconds total_{0.0};
};

}  // namespace tandem
