#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

/// A GPU, or a MIG instance of one, as NVML tells it: no CUDA context is made.
struct GpuInfo {
  std::string uuid{};    ///< "GPU-..." or "MIG-...", as CUDA_VISIBLE_DEVICES takes it
  std::string name{};    ///< "NVIDIA H200"
  std::string bus_id{};  ///< "0000:3b:00.0", as sysfs spells it; of an instance, its card's
  std::uint64_t memory_bytes = 0;
  bool is_instance = false;
  bool prohibited = false;  ///< compute mode: no process may use it
  bool exclusive = false;   ///< compute mode: one process at a time
  bool busy = false;        ///< some process computes on it
  /// Those that do; none where NVML does not tell. Their ids hold outside of a container.
  std::vector<pid_t> processes{};
  /// Processes of other users that compute on it; without those of which /proc tells no owner, as
  /// from within a container.
  int processes_of_others = 0;
};

/// What this host's driver offers.
struct GpuList {
  std::vector<GpuInfo> gpus{};
  int cuda_version = 0;   ///< the driver's, 13010 for 13.1; 0 where it does not say
  std::string driver{};   ///< its version, "580.65.06"; empty where it does not say
  std::string trouble{};  ///< why nothing can be listed, as a phrase; empty where it can
};

/// NVML's file, wherever the driver put it.
constexpr const char* default_nvml = "libnvidia-ml.so.1";

/// Many GPUs whose driver is not kept loaded take some seconds.
constexpr double usual_nvml_seconds = 20.0;

/// The GPUs of this host in NVML's order, which is that of their bus ids; of a GPU in MIG mode its
/// instances. No GPU and no driver is no error; SystemError where a driver does not answer for
/// `seconds` (0: for ever), as behind a GPU that has fallen off its bus. `nvml`: NVML's file, for
/// tests.
GpuList list_gpus(double seconds = usual_nvml_seconds, const char* nvml = default_nvml);

/// Those of `gpus` that CUDA_VISIBLE_DEVICES leaves, in its order: indices, UUIDs or their
/// beginnings, up to the first that names none. All of them where it is not set (null).
std::vector<GpuInfo> visible_gpus_of(const std::vector<GpuInfo>& gpus, const char* visible);

/// Throws InputError where `visible` (CUDA_VISIBLE_DEVICES) names GPUs of several models by index,
/// and `order` (CUDA_DEVICE_ORDER) does not say that these go by bus ids: CUDA counts the fastest
/// first, and means others than NVML. Instances are no models. Null where they are not set.
void require_one_order(const std::vector<GpuInfo>& gpus, const char* visible, const char* order);

/// list_gpus(), of which this process's CUDA_VISIBLE_DEVICES leaves these. Throws InputError where
/// that can be taken for others.
GpuList list_visible_gpus(double seconds = usual_nvml_seconds);

}  // namespace tandem
