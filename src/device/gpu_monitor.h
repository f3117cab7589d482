#pragma once

#include <memory>
#include <optional>
#include <string>

namespace tandem {

/// What one GPU did over a stretch of time, everything that ran on it together. What the machine
/// does not tell is absent. Shares are 0 to 1, means over the stretch.
struct GpuActivity {
  /// Of the multiprocessors: those with a warp resident.
  std::optional<double> sm_activity{};
  /// Of the warps that the multiprocessors can hold: those resident.
  std::optional<double> sm_occupancy{};
  /// Of the tensor pipes' cycles: those at work.
  std::optional<double> tensor_activity{};
  /// Of the memory's greatest bandwidth: what was used.
  std::optional<double> dram_activity{};
  /// By the whole board.
  std::optional<double> energy_joules{};
};

/// Reads a GPU's own counters through NVML: the GPM metrics (GPUs from Hopper on) and the energy
/// counter. NVML comes with the driver and is loaded at run time: nothing is linked, and where it
/// is missing nothing can be read, which is no error.
///
/// Of a MIG instance the metrics are its own and the energy, the whole board's, is absent.
class GpuMonitor {
 public:
  /// NVML's file, wherever the driver put it.
  static constexpr const char* default_library = "libnvidia-ml.so.1";

  /// `uuid` as CudaDevice has it; that of a MIG instance may begin with "GPU-" or "MIG-".
  /// `library`: NVML's file, for tests.
  explicit GpuMonitor(const std::string& uuid, const char* library = default_library);
  ~GpuMonitor();
  GpuMonitor(GpuMonitor&&) noexcept;
  GpuMonitor& operator=(GpuMonitor&&) noexcept;

  /// A stretch begins. Waits for nothing that runs on the GPU.
  void begin();
  /// What was done since begin(), or since the last end() where that is later: the next stretch
  /// begins here.
  GpuActivity end();

  /// Why something cannot be read on this machine, as a phrase; empty where everything can.
  const std::string& trouble() const { return trouble_; }

 private:
  class Device;

  std::string trouble_;
  std::unique_ptr<Device> device_;  // null where nothing can be read
};

}  // namespace tandem
