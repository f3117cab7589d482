#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "device/gpu_monitor.h"
#include "parallel/communicator.h"

namespace tandem {

/// What the GPUs of a run did over a stretch of it.
struct GpuStretch {
  GpuActivity activity;
  double seconds = 0.0;
  /// Of these; in the rest training paused.
  double training_seconds = 0.0;
  std::int64_t samples = 0;  ///< trained on in it
};

/// What the GPUs of a run did from record to record, by their own counters (device/gpu_monitor.h).
/// Each is read by the first of the ranks that compute on it.
///
/// Where training goes on long enough between its pauses, stretches are of training alone. Where it
/// pauses more often, a stretch goes on through the pauses: the counters are too slow to tell what
/// lies on which side of one, so short pieces cannot be read singly and added up.
class GpuUse {
 public:
  /// The counters move about ten times a second: over a shorter stretch than this they tell noise.
  static constexpr double shortest_seconds = 0.5;
  /// What they tell is up to so old. Who wants a stretch of one kind of work alone is at it for so
  /// long before begin().
  static constexpr double lag_seconds = 0.15;

  /// Collective. `uuid`: of the GPU that this rank computes on; empty on a CPU, on all ranks alike:
  /// then nothing is read. Rank 0 logs once what cannot be read and why. `library`: NVML's file,
  /// and `shortest`: instead of shortest_seconds, for tests.
  GpuUse(Communicator& communicator, const std::string& uuid,
         const char* library = GpuMonitor::default_library, double shortest = shortest_seconds);

  /// Whether the ranks compute on GPUs; else nothing is told.
  bool on_gpus() const { return on_gpus_; }

  /// A stretch begins.
  void begin();
  /// On all ranks alike, where training goes on after a pause, an evaluation or a checkpoint, of so
  /// many `seconds`; end() was called before it. A stretch begins here, unless what was trained
  /// since the pause before gave no figures of its own: then the stretch goes on, this pause in it.
  void paused(double seconds);
  /// Collective, at the end of training on so many `samples` since the last call. Of the stretch
  /// since the last end() that told one, or as begin() and paused() have it, on rank 0: shares as
  /// means over the GPUs, energy as their sum; what one of them does not tell is absent. Nothing
  /// where the stretch is too short still, and goes on; on other ranks; on CPUs.
  std::optional<GpuStretch> end(std::int64_t samples);

 private:
  using Clock = std::chrono::steady_clock;

  struct Stretch {
    Clock::time_point began = Clock::now();
    std::int64_t samples = 0;
    bool trained = false;  // end() was called in it
    bool paused = false;
    double paused_seconds = 0.0;
  };

  /// Collective: seconds of the stretch by rank 0's clock, so that all ranks judge alike.
  double seconds() const;

  Communicator& communicator_;
  bool on_gpus_;
  double shortest_;
  Stretch stretch_;
  bool told_ = false;                  // since the last pause: figures of training alone
  std::optional<GpuMonitor> monitor_;  // of the first rank on a GPU
};

}  // namespace tandem
