// A library with NVML's functions for listing GPUs, under NVML's own file name, for tests that put
// its folder into LD_LIBRARY_PATH. The GPUs are what FAKE_GPUS says, one a word:
//   UUID[:exclusive|prohibited|instances][:busy][:processes=ID,ID...]
// On a busy one the process computes that asks, on one with processes these. Of one with instances,
// two MIG instances MIG-UUID-0 and MIG-UUID-1 are there. FAKE_CUDA_VERSION: the driver's, 13000
// where it is not set; FAKE_DRIVER: the driver's version, "580.1" where it is not set. While
// FAKE_NVML_HANGS is set the GPUs are not counted.

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "device/nvml_api.h"

namespace nvml = tandem::nvml;

namespace tandem::nvml {
struct DeviceHandle {
  std::string uuid;
  bool exclusive = false;
  bool prohibited = false;
  std::vector<unsigned int> processes{};
  std::vector<DeviceHandle> instances{};
};
}  // namespace tandem::nvml

namespace {

constexpr nvml::Status not_found = 6;

std::vector<unsigned int> processes_in(const std::string& word) {
  std::vector<unsigned int> processes;
  if (word.find(":busy") != std::string::npos) {
    processes.push_back(static_cast<unsigned int>(::getpid()));
  }
  const std::string key = ":processes=";
  const std::size_t at = word.find(key);
  if (at == std::string::npos) return processes;
  std::istringstream ids(word.substr(at + key.size()));
  for (std::string id; std::getline(ids, id, ',');) {
    processes.push_back(static_cast<unsigned int>(std::stoul(id)));
  }
  return processes;
}

std::vector<nvml::DeviceHandle>& devices() {
  static std::vector<nvml::DeviceHandle> all = [] {
    std::vector<nvml::DeviceHandle> found;
    const char* text = std::getenv("FAKE_GPUS");
    std::istringstream words(text == nullptr ? "" : text);
    for (std::string word; words >> word;) {
      nvml::DeviceHandle device{.uuid = word.substr(0, word.find(':'))};
      device.exclusive = word.find(":exclusive") != std::string::npos;
      device.prohibited = word.find(":prohibited") != std::string::npos;
      device.processes = processes_in(word);
      if (word.find(":instances") != std::string::npos) {
        for (const char* number : {"0", "1"}) {
          device.instances.push_back({.uuid = "MIG-" + device.uuid + "-" + number});
        }
      }
      found.push_back(device);
    }
    return found;
  }();
  return all;
}

nvml::Status give(const std::string& text, char* memory, unsigned int size) {
  if (text.size() >= size) return nvml::insufficient_size;
  std::memcpy(memory, text.c_str(), text.size() + 1);
  return 0;
}

}  // namespace

extern "C" {

nvml::Status nvmlInit_v2() { return 0; }
nvml::Status nvmlShutdown() { return 0; }
const char* nvmlErrorString(nvml::Status /*status*/) { return "Not Found"; }
nvml::Status nvmlDeviceGetHandleByUUID(const char* /*uuid*/, nvml::DeviceHandle** /*handle*/) {
  return not_found;
}
nvml::Status nvmlSystemGetCudaDriverVersion_v2(int* version) {
  const char* text = std::getenv("FAKE_CUDA_VERSION");
  *version = text == nullptr ? 13000 : std::atoi(text);
  return 0;
}
nvml::Status nvmlSystemGetDriverVersion(char* text, unsigned int size) {
  const char* version = std::getenv("FAKE_DRIVER");
  return give(version == nullptr ? "580.1" : version, text, size);
}
nvml::Status nvmlDeviceGetCount_v2(unsigned int* count) {
  while (std::getenv("FAKE_NVML_HANGS") != nullptr) ::sleep(1);
  *count = static_cast<unsigned int>(devices().size());
  return 0;
}
nvml::Status nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvml::DeviceHandle** handle) {
  *handle = &devices().at(index);
  return 0;
}
nvml::Status nvmlDeviceGetUUID(nvml::DeviceHandle* device, char* text, unsigned int size) {
  return give(device->uuid, text, size);
}
nvml::Status nvmlDeviceGetName(nvml::DeviceHandle* /*device*/, char* text, unsigned int size) {
  return give("Fake GPU", text, size);
}
nvml::Status nvmlDeviceGetMemoryInfo(nvml::DeviceHandle* /*device*/, nvml::Memory* memory) {
  *memory = {.total = 1ULL << 30, .free = 1ULL << 30, .used = 0};
  return 0;
}
nvml::Status nvmlDeviceGetPciInfo_v3(nvml::DeviceHandle* /*device*/, nvml::PciInfo* info) {
  std::strcpy(info->bus_id, "00000000:3B:00.0");
  return 0;
}
nvml::Status nvmlDeviceGetComputeMode(nvml::DeviceHandle* device, int* mode) {
  *mode = device->exclusive    ? nvml::compute_exclusive_process
          : device->prohibited ? nvml::compute_prohibited
                               : 0;
  return 0;
}
nvml::Status nvmlDeviceGetComputeRunningProcesses_v3(nvml::DeviceHandle* device,
                                                     unsigned int* count,
                                                     nvml::ProcessInfo* processes) {
  const unsigned int room = *count;
  *count = static_cast<unsigned int>(device->processes.size());
  if (room < *count) return nvml::insufficient_size;
  for (unsigned int at = 0; at < *count; ++at) {
    processes[at] = {.process = device->processes[at],
                     .used_memory = 0,
                     .gpu_instance = 0,
                     .compute_instance = 0};
  }
  return 0;
}
nvml::Status nvmlDeviceGetMigMode(nvml::DeviceHandle* device, unsigned int* current,
                                  unsigned int* pending) {
  *current = *pending = device->instances.empty() ? 0 : 1;
  return 0;
}
/// More places than instances, as on real cards.
nvml::Status nvmlDeviceGetMaxMigDeviceCount(nvml::DeviceHandle* /*device*/, unsigned int* count) {
  *count = 7;
  return 0;
}
nvml::Status nvmlDeviceGetMigDeviceHandleByIndex(nvml::DeviceHandle* device, unsigned int index,
                                                 nvml::DeviceHandle** handle) {
  if (index >= device->instances.size()) return not_found;
  *handle = &device->instances[index];
  return 0;
}
}
