#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "device/gpu_monitor.h"
#include "parallel/communicator.h"

namespace tandem {

/// What the GPUs of a run did over a stretch of it.
struct GpuStretch {
  GpuActivity activity;
  double seconds = 0.0;
};

/// What the GPUs of a run did from record to record, by their own counters (device/gpu_monitor.h).
/// Each is read by the first of the ranks that compute on it.
class GpuUse {
 public:
  /// The counters move about ten times a second: over a shorter stretch than this they tell noise.
  static constexpr double shortest_seconds = 0.5;

  /// Collective. `uuid`: of the GPU that this rank computes on; empty on a CPU, on all ranks alike:
  /// then nothing is read. Rank 0 logs once what cannot be read and why. `library`: NVML's file,
  /// and `shortest`: instead of shortest_seconds, for tests.
  GpuUse(Communicator& communicator, const std::string& uuid,
         const char* library = GpuMonitor::default_library, double shortest = shortest_seconds);

  /// A stretch begins.
  void begin();
  /// Collective. Of the stretch since begin() or the last end() that told one, on rank 0: shares as
  /// means over the GPUs, energy as their sum; what one of them does not tell is absent. Nothing
  /// where the stretch is too short still, and goes on; on other ranks; on CPUs.
  std::optional<GpuStretch> end();

 private:
  using Clock = std::chrono::steady_clock;

  /// Collective: seconds of the stretch by rank 0's clock, so that all ranks judge alike.
  double seconds() const;

  Communicator& communicator_;
  bool on_gpus_;
  double shortest_;
  Clock::time_point began_ = Clock::now();
  std::optional<GpuMonitor> monitor_;  // of the first rank on a GPU
};

}  // namespace tandem
