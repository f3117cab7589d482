#pragma once

#include <optional>
#include <string>

#include "device/gpu_monitor.h"
#include "parallel/communicator.h"

namespace tandem {

/// What the GPUs of a run did from record to record, by their own counters (device/gpu_monitor.h).
/// Each is read by the first of the ranks that compute on it.
class GpuUse {
 public:
  /// Collective. `uuid`: of the GPU that this rank computes on; empty on a CPU, on all ranks alike:
  /// then nothing is read. Rank 0 logs once what cannot be read and why. `library`: NVML's file,
  /// for tests.
  GpuUse(Communicator& communicator, const std::string& uuid,
         const char* library = GpuMonitor::default_library);

  /// A stretch begins.
  void begin();
  /// Collective. Of the stretch since begin() or the last end(), on rank 0: shares as means over
  /// the GPUs, energy as their sum; what one of them does not tell is absent. Nothing on other
  /// ranks and on CPUs.
  std::optional<GpuActivity> end();

 private:
  Communicator& communicator_;
  bool on_gpus_;
  std::optional<GpuMonitor> monitor_;  // of the first rank on a GPU
};

}  // namespace tandem
