#pragma once

// The part of NVML that Tandem uses, as nvml.h declares it: the library is loaded at run time, and
// the header is not everywhere. Included by sources only.

namespace tandem::nvml {

/// nvmlReturn_t, an enumeration; 0 is success.
using Status = int;
struct DeviceHandle;
struct GpmSample;

constexpr unsigned int gpm_support_version = 1;
struct GpmSupport {
  unsigned int version;
  unsigned int is_supported;
};

/// nvmlGpmMetricId_t; values are per cent.
constexpr unsigned int gpm_sm_activity = 2;
constexpr unsigned int gpm_sm_occupancy = 3;
constexpr unsigned int gpm_tensor_activity = 5;
constexpr unsigned int gpm_dram_activity = 10;

struct GpmMetric {
  unsigned int id;
  Status status;
  double value;
  const char* short_name;
  const char* long_name;
  const char* unit;
};

constexpr unsigned int gpm_metrics_version = 1;
/// The array grows from release to release and the library uses its first `count`: room for more
/// than any has.
constexpr int gpm_most_metrics = 512;
struct GpmMetricsGet {
  unsigned int version;
  unsigned int count;
  GpmSample* first;
  GpmSample* second;
  GpmMetric metrics[gpm_most_metrics];
};

struct Memory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

/// nvmlPciInfo_t, of nvmlDeviceGetPciInfo_v3.
struct PciInfo {
  char legacy_bus_id[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int device_id;
  unsigned int subsystem_id;
  char bus_id[32];
};

/// nvmlProcessInfo_v2_t, of nvmlDeviceGetComputeRunningProcesses_v3.
struct ProcessInfo {
  unsigned int process;
  unsigned long long used_memory;
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

/// nvmlComputeMode_t.
constexpr int compute_prohibited = 2;
constexpr int compute_exclusive_process = 3;

/// Of a call that was given no memory for what it tells, where there is something.
constexpr Status insufficient_size = 7;

}  // namespace tandem::nvml
