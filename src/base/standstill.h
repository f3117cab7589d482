#pragma once

#include <algorithm>
#include <chrono>

namespace tandem {

/// Counts for how long something stands still, by looks at it. Of the time between two looks that
/// lie over a second apart little counts, or nothing: this process may have been stopped too, as a
/// whole job may be.
class Standstill {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  /// `of_long_gap`: what counts of such a time, for who may look as rarely without being stopped.
  explicit Standstill(Clock::time_point now, Seconds of_long_gap = Seconds::zero())
      : last_(now), of_long_gap_(of_long_gap) {}

  /// Looks, best ten times a second; returns the time so far, which begins anew where it moves.
  Seconds look(bool stands_still, Clock::time_point now) {
    const Seconds since = now - last_;
    last_ = now;
    if (!stands_still) {
      total_ = Seconds::zero();
    } else {
      total_ += since <= longest_gap ? since : of_long_gap_;
    }
    return total_;
  }

 private:
  /// Ten times the looks' distance: a busy host may be late.
  static constexpr Seconds longest_gap{1.0};

  Clock::time_point last_;
  Seconds of_long_gap_;
  Seconds total_{0.0};
};

/// For how long something may stand still that has done so for up to `longest` before, as a busy
/// host's slow layer, where it may for `least` in any case. Where none took more than 8 s a job
/// ends within 30 s by default, the ranks' turns and mpirun's two seconds included.
inline double silence_limit(double least, double longest) {
  constexpr double factor = 3.0;
  return std::max(least, factor * longest);
}

/// When it is a rank's turn to end the job over something that several may meet at once and that
/// may last `seconds`, as a network's disk that hangs: rank 0's first, then the others' one after
/// the other, so that one says so, and has ended the job before the next one does. 0: never.
inline double in_turn(double seconds, int rank) {
  // mpirun kills a rank of another host two seconds and more after one has ended.
  constexpr double first_turn = 2.5;
  constexpr double turn = 0.1;
  constexpr int turns = 6;
  if (seconds == 0.0 || rank == 0) return seconds;
  return seconds + first_turn + turn * std::min(rank - 1, turns);
}

/// For how long something that ranks wait `timeout` for may stand still before others than ranks
/// end the job: those that wait elsewhere are to find it first, for they know which checkpoint is
/// left. Never where nobody waits (0).
inline Standstill::Seconds longest_standstill(Standstill::Seconds timeout) {
  if (timeout == Standstill::Seconds::zero()) return Standstill::Seconds::max();
  return timeout + std::max(Standstill::Seconds(2.0), timeout / 5.0);
}

}  // namespace tandem
