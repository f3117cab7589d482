#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "train/record/run_record.h"
#include "train/step/step_runner.h"

namespace tandem {

/// Adds up what a run's steps did: since the last record, and since the epoch began. A device tells
/// of a step while the next one is under way, so the last step here may be behind the run's.
class StepTally {
 public:
  /// `data_wait_seconds`: how long this process has waited for batches so far.
  explicit StepTally(std::function<double()> data_wait_seconds);

  /// Training begins, after so many steps of the run.
  void begin(std::int64_t step);
  void add(const StepResult& result);

  /// The last step that was added.
  std::int64_t step() const { return step_; }
  /// Whether nothing was added since the last interval.
  bool interval_is_empty() const { return interval_.steps == 0; }
  /// Ends the interval, and begins the next one. Interval::gpu is the caller's.
  Interval take_interval();

  const LossSums& epoch_sums() const { return epoch_sums_; }
  void end_epoch() { epoch_sums_ = {}; }

  /// So many seconds just now were no training. The interval begins anew.
  void pause(double seconds);
  /// Seconds of training since begin().
  double training_seconds() const;

 private:
  using Clock = std::chrono::steady_clock;

  void begin_interval();

  std::function<double()> data_wait_seconds_;
  std::int64_t step_ = 0;
  LossSums epoch_sums_;
  Clock::time_point began_;
  double paused_seconds_ = 0.0;
  Interval interval_;
  Clock::time_point interval_began_;
  double waited_before_ = 0.0;  ///< the interval, in all
};

}  // namespace tandem
