// A library with NVML's functions and made-up counters, for gpu_monitor_test.cpp. Two devices:
// GPU-whole, of which everything can be read, and the MIG instance 5 of it, MIG-part; GPU-old has
// no GPM metrics. Between nvmlInit and nvmlShutdown it has a thread, "fake_nvml", that waits.

#include <pthread.h>

#include <cstring>
#include <latch>
#include <limits>
#include <mutex>
#include <thread>

#include "device/nvml_api.h"

namespace nvml = tandem::nvml;

namespace tandem::nvml {
struct DeviceHandle {
  const char* uuid;
  bool gpm;
  bool mig;
};
struct GpmSample {
  unsigned long long time;
  unsigned int instance;
};
}  // namespace tandem::nvml

namespace {

constexpr nvml::Status not_supported = 3;
constexpr nvml::Status not_found = 6;
nvml::DeviceHandle devices[] = {{"GPU-whole", true, false},
                                {"MIG-part", true, true},
                                {"GPU-old", false, false},
                                {"GPU-still", false, false}};
unsigned long long now = 0;

std::mutex running;
std::thread driver_thread;

nvml::Status take(nvml::GpmSample* sample, unsigned int instance) {
  *sample = {.time = ++now, .instance = instance};
  return 0;
}

}  // namespace

extern "C" {

nvml::Status nvmlInit_v2() {
  running.lock();
  std::latch begun(1);
  driver_thread = std::thread([&] {
    begun.count_down();
    const std::lock_guard end(running);
  });
  begun.wait();  // has its own mask of signals from here on
  pthread_setname_np(driver_thread.native_handle(), "fake_nvml");
  return 0;
}
nvml::Status nvmlShutdown() {
  running.unlock();
  driver_thread.join();
  return 0;
}
const char* nvmlErrorString(nvml::Status /*status*/) { return "Not Found"; }

nvml::Status nvmlDeviceGetHandleByUUID(const char* uuid, nvml::DeviceHandle** handle) {
  for (nvml::DeviceHandle& device : devices) {
    if (std::strcmp(device.uuid, uuid) != 0) continue;
    *handle = &device;
    return 0;
  }
  return not_found;
}
nvml::Status nvmlDeviceIsMigDeviceHandle(nvml::DeviceHandle* device, unsigned int* is) {
  *is = device->mig ? 1 : 0;
  return 0;
}
nvml::Status nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvml::DeviceHandle* /*instance*/,
                                                          nvml::DeviceHandle** whole) {
  *whole = &devices[0];
  return 0;
}
nvml::Status nvmlDeviceGetGpuInstanceId(nvml::DeviceHandle* device, unsigned int* id) {
  *id = 5;
  return device->mig ? 0 : not_supported;
}
/// 2.5 J more at each reading, but of one whose counter stands still.
nvml::Status nvmlDeviceGetTotalEnergyConsumption(nvml::DeviceHandle* device,
                                                 unsigned long long* millijoules) {
  static unsigned long long total = 7000;
  if (std::strcmp(device->uuid, "GPU-still") != 0) total += 2500;
  *millijoules = total;
  return 0;
}
nvml::Status nvmlGpmQueryDeviceSupport(nvml::DeviceHandle* device, nvml::GpmSupport* support) {
  if (support->version != 1) return not_supported;
  support->is_supported = device->gpm ? 1 : 0;
  return 0;
}
nvml::Status nvmlGpmSampleAlloc(nvml::GpmSample** sample) {
  *sample = new nvml::GpmSample{};
  return 0;
}
nvml::Status nvmlGpmSampleFree(nvml::GpmSample* sample) {
  delete sample;
  return 0;
}
nvml::Status nvmlGpmSampleGet(nvml::DeviceHandle* device, nvml::GpmSample* sample) {
  return device->mig ? not_supported : take(sample, 0);
}
nvml::Status nvmlGpmMigSampleGet(nvml::DeviceHandle* device, unsigned int instance,
                                 nvml::GpmSample* sample) {
  return device->mig ? not_supported : take(sample, instance);
}
/// Activity 50 %, of the instance 20 %; occupancy fails; no tensor work; DRAM is not a number.
nvml::Status nvmlGpmMetricsGet(nvml::GpmMetricsGet* get) {
  if (get->version != 1 || get->second->time != get->first->time + 1) return not_supported;
  for (unsigned int i = 0; i < get->count; ++i) {
    nvml::GpmMetric& metric = get->metrics[i];
    metric.status = metric.id == 3 ? not_supported : 0;
    metric.value = 0.0;
    if (metric.id == 2) metric.value = get->first->instance == 5 ? 20.0 : 50.0;
    if (metric.id == 10) metric.value = std::numeric_limits<double>::quiet_NaN();
  }
  return 0;
}

}  // extern "C"
