#include "device/gpu_list.h"

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <future>
#include <memory>
#include <sstream>
#include <thread>

#include "base/blocked_signals.h"
#include "base/error.h"
#include "base/host_name.h"
#include "base/standstill.h"
#include "base/text.h"
#include "device/nvml_library.h"

namespace tandem {
namespace {

using nvml::DeviceHandle;
using nvml::Library;
using nvml::Status;

/// The functions that are used, null where the driver's NVML is older.
struct Functions {
  explicit Functions(const Library& library) {
    library.find("nvmlSystemGetCudaDriverVersion_v2", cuda_version);
    library.find("nvmlSystemGetDriverVersion", driver_version);
    library.find("nvmlDeviceGetCount_v2", count);
    library.find("nvmlDeviceGetHandleByIndex_v2", by_index);
    library.find("nvmlDeviceGetUUID", uuid);
    library.find("nvmlDeviceGetName", name);
    library.find("nvmlDeviceGetMemoryInfo", memory);
    library.find("nvmlDeviceGetPciInfo_v3", pci);
    library.find("nvmlDeviceGetComputeMode", compute_mode);
    library.find("nvmlDeviceGetComputeRunningProcesses_v3", processes);
    library.find("nvmlDeviceGetMigMode", mig_mode);
    library.find("nvmlDeviceGetMaxMigDeviceCount", most_instances);
    library.find("nvmlDeviceGetMigDeviceHandleByIndex", instance);
  }

  Status (*cuda_version)(int*) = nullptr;
  Status (*driver_version)(char*, unsigned int) = nullptr;
  Status (*count)(unsigned int*) = nullptr;
  Status (*by_index)(unsigned int, DeviceHandle**) = nullptr;
  Status (*uuid)(DeviceHandle*, char*, unsigned int) = nullptr;
  Status (*name)(DeviceHandle*, char*, unsigned int) = nullptr;
  Status (*memory)(DeviceHandle*, nvml::Memory*) = nullptr;
  Status (*pci)(DeviceHandle*, nvml::PciInfo*) = nullptr;
  Status (*compute_mode)(DeviceHandle*, int*) = nullptr;
  Status (*processes)(DeviceHandle*, unsigned int*, nvml::ProcessInfo*) = nullptr;
  Status (*mig_mode)(DeviceHandle*, unsigned int*, unsigned int*) = nullptr;
  Status (*most_instances)(DeviceHandle*, unsigned int*) = nullptr;
  Status (*instance)(DeviceHandle*, unsigned int, DeviceHandle**) = nullptr;
};

/// Calls a function that was found; false where it fails or there is none.
template <typename Function, typename... Args>
bool succeeds(Function* function, Args... args) {
  return function != nullptr && function(args...) == 0;
}

std::string text_from(Status (*function)(DeviceHandle*, char*, unsigned int),
                      DeviceHandle* device) {
  std::array<char, 128> text{};
  const bool got = succeeds(function, device, text.data(), static_cast<unsigned int>(text.size()));
  return got ? text.data() : "";
}

/// Without what stands around it: CUDA skips blanks behind commas.
std::string without_blanks(const std::string& word) {
  const std::size_t begin = word.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return word.substr(begin, word.find_last_not_of(" \t") - begin + 1);
}

/// "00000000:3B:00.0" as sysfs has it: a domain of four digits, small letters.
std::string sysfs_bus_id(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const std::size_t colon = text.find(':');
  const bool padded = colon == 8 && text.starts_with("0000");
  return padded ? text.substr(4) : text;
}

/// Processes that compute on the device; none where NVML does not tell.
std::vector<pid_t> processes_on(const Functions& nvml, DeviceHandle* device) {
  unsigned int count = 0;
  if (nvml.processes(device, &count, nullptr) != nvml::insufficient_size) return {};
  constexpr unsigned int started_meanwhile = 16;
  count += started_meanwhile;
  std::vector<nvml::ProcessInfo> found(count);
  if (nvml.processes(device, &count, found.data()) != 0) return {};
  std::vector<pid_t> processes;
  for (unsigned int at = 0; at < count; ++at) {
    processes.push_back(static_cast<pid_t>(found[at].process));
  }
  return processes;
}

/// Where /proc hides other users' processes, a signal to one is still refused, not lost.
bool is_of_another_user(pid_t process) {
  struct stat facts {};
  if (::stat(("/proc/" + std::to_string(process)).c_str(), &facts) == 0) {
    return facts.st_uid != ::geteuid();
  }
  return ::kill(process, 0) != 0 && errno == EPERM;
}

GpuInfo describe(const Functions& nvml, DeviceHandle* device) {
  GpuInfo gpu{.uuid = text_from(nvml.uuid, device), .name = text_from(nvml.name, device)};
  nvml::Memory memory{};
  if (succeeds(nvml.memory, device, &memory)) gpu.memory_bytes = memory.total;
  nvml::PciInfo pci{};
  if (succeeds(nvml.pci, device, &pci)) gpu.bus_id = sysfs_bus_id(pci.bus_id);
  int mode = 0;
  if (succeeds(nvml.compute_mode, device, &mode)) {
    gpu.prohibited = mode == nvml::compute_prohibited;
    gpu.exclusive = mode == nvml::compute_exclusive_process;
  }
  if (nvml.processes != nullptr) {
    unsigned int none = 0;
    gpu.busy = nvml.processes(device, &none, nullptr) == nvml::insufficient_size;
    gpu.processes = processes_on(nvml, device);
    gpu.processes_of_others =
        static_cast<int>(std::ranges::count_if(gpu.processes, is_of_another_user));
  }
  return gpu;
}

bool in_mig_mode(const Functions& nvml, DeviceHandle* device) {
  unsigned int current = 0;
  unsigned int pending = 0;
  return succeeds(nvml.mig_mode, device, &current, &pending) && current != 0;
}

void add_instances(const Functions& nvml, DeviceHandle* device, std::vector<GpuInfo>& gpus) {
  const GpuInfo card = describe(nvml, device);
  unsigned int most = 0;
  if (!succeeds(nvml.most_instances, device, &most)) return;
  for (unsigned int at = 0; at < most; ++at) {
    DeviceHandle* handle = nullptr;
    if (!succeeds(nvml.instance, device, at, &handle)) continue;  // a place without an instance
    GpuInfo gpu = describe(nvml, handle);
    gpu.bus_id = card.bus_id;
    gpu.is_instance = true;
    gpus.push_back(gpu);
  }
}

GpuList query(const char* file) {
  GpuList list;
  const std::unique_ptr<Library> library = Library::load(file, list.trouble);
  if (!library) return list;
  const Functions nvml(*library);
  if (!succeeds(nvml.cuda_version, &list.cuda_version)) list.cuda_version = 0;
  std::array<char, 128> driver{};
  const auto room = static_cast<unsigned int>(driver.size());
  if (succeeds(nvml.driver_version, driver.data(), room)) list.driver = driver.data();
  unsigned int count = 0;
  if (!succeeds(nvml.count, &count)) {
    list.trouble = "NVML does not count the GPUs";
    return list;
  }
  for (unsigned int index = 0; index < count; ++index) {
    DeviceHandle* device = nullptr;
    if (!succeeds(nvml.by_index, index, &device)) continue;  // one that this process may not use
    if (in_mig_mode(nvml, device)) {
      add_instances(nvml, device, list.gpus);
    } else {
      list.gpus.push_back(describe(nvml, device));
    }
  }
  return list;
}

}  // namespace

GpuList list_gpus(double seconds, const char* file) {
  std::packaged_task<GpuList()> task([name = std::string(file)] { return query(name.c_str()); });
  std::future<GpuList> found = task.get_future();
  {
    const BlockedSignals blocked;
    std::thread(std::move(task)).detach();  // left behind where the driver keeps it
  }
  Standstill standstill(Standstill::Clock::now());
  while (found.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    const auto stood = standstill.look(true, Standstill::Clock::now());
    if (seconds == 0.0 || stood.count() < seconds) continue;
    system_error(
        "the GPU driver of {} has not said for {:g} s which GPUs there are; look at nvidia-smi and "
        "at that host's kernel log",
        host_name(), seconds);
  }
  return found.get();
}

std::vector<GpuInfo> visible_gpus_of(const std::vector<GpuInfo>& gpus, const char* visible) {
  if (visible == nullptr) return gpus;
  std::vector<GpuInfo> chosen;
  std::istringstream words(visible);
  for (std::string word; std::getline(words, word, ',');) {
    word = without_blanks(word);
    auto found = gpus.end();
    if (const auto index = parse_number<std::size_t>(word)) {
      if (*index < gpus.size()) found = gpus.begin() + static_cast<std::ptrdiff_t>(*index);
    } else if (!word.empty()) {
      found = std::ranges::find_if(gpus,
                                   [&](const GpuInfo& gpu) { return gpu.uuid.starts_with(word); });
    }
    if (found == gpus.end()) break;  // as CUDA does, which shows none where one is named twice
    const auto is_it = [&](const GpuInfo& each) { return each.uuid == found->uuid; };
    if (std::ranges::any_of(chosen, is_it)) return {};
    chosen.push_back(*found);
  }
  return chosen;
}

void require_one_order(const std::vector<GpuInfo>& gpus, const char* visible, const char* order) {
  if (visible == nullptr || (order != nullptr && std::string_view(order) == "PCI_BUS_ID")) return;
  const auto whole = [](const GpuInfo& gpu) { return !gpu.is_instance; };
  const auto first = std::ranges::find_if(gpus, whole);
  const auto other = std::ranges::find_if(
      gpus, [&](const GpuInfo& gpu) { return whole(gpu) && gpu.name != first->name; });
  if (other == gpus.end()) return;
  std::istringstream words(visible);
  for (std::string word; std::getline(words, word, ',');) {
    if (!parse_number<std::size_t>(without_blanks(word))) continue;
    input_error(
        "CUDA_VISIBLE_DEVICES={} names GPUs by index, and {} has different models ({}, {}), which "
        "CUDA counts in another order than nvidia-smi; set CUDA_DEVICE_ORDER=PCI_BUS_ID too, or "
        "name them by UUID (nvidia-smi -L)",
        visible, host_name(), first->name, other->name);
  }
}

GpuList list_visible_gpus(double seconds) {
  GpuList host = list_gpus(seconds);
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  require_one_order(host.gpus, visible, std::getenv("CUDA_DEVICE_ORDER"));
  host.gpus = visible_gpus_of(host.gpus, visible);
  return host;
}

}  // namespace tandem
