#include "device/gpu_monitor.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "device/nvml_library.h"

namespace tandem {
namespace {

using nvml::DeviceHandle;
using nvml::GpmSample;
using nvml::Library;
using nvml::Status;

/// The functions that are used, null where the driver's NVML is older.
struct Functions {
  explicit Functions(const Library& library) {
    library.find("nvmlDeviceGetHandleByUUID", device_by_uuid);
    library.find("nvmlDeviceIsMigDeviceHandle", is_mig);
    library.find("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", whole_device);
    library.find("nvmlDeviceGetGpuInstanceId", gpu_instance);
    library.find("nvmlDeviceGetTotalEnergyConsumption", energy);
    library.find("nvmlGpmQueryDeviceSupport", gpm_support);
    library.find("nvmlGpmSampleAlloc", gpm_alloc);
    library.find("nvmlGpmSampleFree", gpm_free);
    library.find("nvmlGpmSampleGet", gpm_sample);
    library.find("nvmlGpmMigSampleGet", gpm_mig_sample);
    library.find("nvmlGpmMetricsGet", gpm_metrics);
  }

  Status (*device_by_uuid)(const char*, DeviceHandle**) = nullptr;
  Status (*is_mig)(DeviceHandle*, unsigned int*) = nullptr;
  Status (*whole_device)(DeviceHandle*, DeviceHandle**) = nullptr;
  Status (*gpu_instance)(DeviceHandle*, unsigned int*) = nullptr;
  Status (*energy)(DeviceHandle*, unsigned long long*) = nullptr;  // in millijoules
  Status (*gpm_support)(DeviceHandle*, nvml::GpmSupport*) = nullptr;
  Status (*gpm_alloc)(GpmSample**) = nullptr;
  Status (*gpm_free)(GpmSample*) = nullptr;
  Status (*gpm_sample)(DeviceHandle*, GpmSample*) = nullptr;
  Status (*gpm_mig_sample)(DeviceHandle*, unsigned int, GpmSample*) = nullptr;
  Status (*gpm_metrics)(nvml::GpmMetricsGet*) = nullptr;

  bool has_gpm() const {
    return gpm_support != nullptr && gpm_alloc != nullptr && gpm_free != nullptr &&
           gpm_sample != nullptr && gpm_metrics != nullptr;
  }
};

/// A reading of all counters; what could not be read is marked.
struct Reading {
  GpmSample* gpm = nullptr;
  bool has_gpm = false;
  std::optional<unsigned long long> millijoules{};
};

struct Metric {
  unsigned int id;
  std::optional<double> GpuActivity::*value;
};
constexpr std::array<Metric, 4> metrics{{{nvml::gpm_sm_activity, &GpuActivity::sm_activity},
                                         {nvml::gpm_sm_occupancy, &GpuActivity::sm_occupancy},
                                         {nvml::gpm_tensor_activity, &GpuActivity::tensor_activity},
                                         {nvml::gpm_dram_activity, &GpuActivity::dram_activity}}};

}  // namespace

/// One device of a loaded library, with the readings at a stretch's begin and end.
class GpuMonitor::Device {
 public:
  /// Null with the reason where NVML does not know the device.
  static std::unique_ptr<Device> open(std::unique_ptr<Library> library, const std::string& uuid,
                                      std::string& trouble) {
    const Functions nvml(*library);
    DeviceHandle* handle = nullptr;
    Status status = nvml.device_by_uuid(uuid.c_str(), &handle);
    // CUDA tells an instance's UUID without saying that it is one.
    if (status != 0 && uuid.starts_with("GPU-")) {
      const std::string instance = "MIG-" + uuid.substr(4);
      if (nvml.device_by_uuid(instance.c_str(), &handle) == 0) status = 0;
    }
    if (status != 0) {
      trouble = fmt::format("NVML knows no device {}: {}", uuid, library->text(status));
      return nullptr;
    }
    return std::unique_ptr<Device>(new Device(std::move(library), handle, trouble));
  }
  ~Device() {
    for (Reading* reading : {&first_, &last_}) {
      if (reading->gpm != nullptr) (void)nvml_.gpm_free(reading->gpm);
    }
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void begin() { read(first_); }

  GpuActivity end() {
    read(last_);
    GpuActivity activity;
    if (first_.has_gpm && last_.has_gpm) compare(activity);
    // The counter begins anew with the driver, and where it has not moved it was not read anew: a
    // GPU always draws power.
    if (first_.millijoules && last_.millijoules && *last_.millijoules > *first_.millijoules) {
      activity.energy_joules = 1e-3 * static_cast<double>(*last_.millijoules - *first_.millijoules);
    }
    std::swap(first_, last_);
    return activity;
  }

 private:
  Device(std::unique_ptr<Library> library, DeviceHandle* handle, std::string& trouble)
      : library_(std::move(library)), nvml_(*library_), handle_(handle) {
    find_instance();
    if (!start_gpm()) trouble = "the GPU's activity cannot be read (NVML's GPM metrics)";
    read(first_);
    if (!first_.millijoules) {
      trouble += trouble.empty() ? "" : "; ";
      trouble += is_instance_ ? "the energy of a MIG instance is not measured"
                              : "the GPU's energy counter cannot be read";
    }
  }

  /// Of a MIG instance the samples are taken through the whole device.
  void find_instance() {
    unsigned int mig = 0;
    if (nvml_.is_mig == nullptr || nvml_.is_mig(handle_, &mig) != 0 || mig == 0) return;
    is_instance_ = true;
    unsigned int id = 0;
    DeviceHandle* whole = nullptr;
    if (nvml_.whole_device == nullptr || nvml_.gpu_instance == nullptr ||
        nvml_.gpm_mig_sample == nullptr || nvml_.whole_device(handle_, &whole) != 0 ||
        nvml_.gpu_instance(handle_, &id) != 0) {
      return;
    }
    handle_ = whole;
    instance_ = id;
  }

  bool start_gpm() {
    if (!nvml_.has_gpm() || (is_instance_ && !instance_)) return false;
    nvml::GpmSupport support{.version = nvml::gpm_support_version, .is_supported = 0};
    if (nvml_.gpm_support(handle_, &support) != 0 || support.is_supported == 0) return false;
    if (nvml_.gpm_alloc(&first_.gpm) != 0) return false;
    return nvml_.gpm_alloc(&last_.gpm) == 0;
  }

  void read(Reading& reading) const {
    reading.has_gpm = false;
    if (reading.gpm != nullptr) {
      reading.has_gpm = (instance_ ? nvml_.gpm_mig_sample(handle_, *instance_, reading.gpm)
                                   : nvml_.gpm_sample(handle_, reading.gpm)) == 0;
    }
    reading.millijoules.reset();
    unsigned long long millijoules = 0;
    if (!is_instance_ && nvml_.energy != nullptr && nvml_.energy(handle_, &millijoules) == 0) {
      reading.millijoules = millijoules;
    }
  }

  void compare(GpuActivity& activity) {
    metrics_ = {.version = nvml::gpm_metrics_version,
                .count = static_cast<unsigned int>(metrics.size()),
                .first = first_.gpm,
                .second = last_.gpm,
                .metrics = {}};
    for (std::size_t i = 0; i < metrics.size(); ++i) metrics_.metrics[i].id = metrics[i].id;
    if (nvml_.gpm_metrics(&metrics_) != 0) return;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
      const nvml::GpmMetric& metric = metrics_.metrics[i];
      if (metric.status != 0 || !std::isfinite(metric.value)) continue;
      activity.*metrics[i].value = 0.01 * metric.value;
    }
  }

  std::unique_ptr<Library> library_;
  Functions nvml_;
  DeviceHandle* handle_;
  bool is_instance_ = false;
  std::optional<unsigned int> instance_{};  // of MIG, where samples can be taken of it
  Reading first_;
  Reading last_;
  nvml::GpmMetricsGet metrics_{};
};

GpuMonitor::GpuMonitor(const std::string& uuid, const char* library) {
  std::unique_ptr<Library> loaded = Library::load(library, trouble_);
  if (loaded) device_ = Device::open(std::move(loaded), uuid, trouble_);
}
GpuMonitor::~GpuMonitor() = default;
GpuMonitor::GpuMonitor(GpuMonitor&&) noexcept = default;
GpuMonitor& GpuMonitor::operator=(GpuMonitor&&) noexcept = default;

void GpuMonitor::begin() {
  if (device_) device_->begin();
}

GpuActivity GpuMonitor::end() { return device_ ? device_->end() : GpuActivity{}; }

}  // namespace tandem
