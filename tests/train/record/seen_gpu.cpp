// Takes the place of device/open_context_*.cpp: there is the CPU alone, but its UUID is that of a
// GPU of tests/device/fake_nvml.cpp, so that a run records what that GPU does.

#include "base/error.h"
#include "device/open_context.h"

namespace tandem {

bool built_with_cuda() { return false; }
int usable_gpus() { return 0; }
std::string gpu_problem() { return {}; }
AnyContext open_gpu(int /*index*/) { input_error("a test without GPUs opens one"); }
std::string device_uuid(const AnyContext& /*context*/) { return "GPU-whole"; }
std::optional<DeviceMemory> device_memory(const AnyContext& /*context*/) { return std::nullopt; }
KernelChoices* kernel_choices(AnyContext& /*context*/) { return nullptr; }
std::vector<std::shared_ptr<const void>> prepared_work(AnyContext& /*context*/) { return {}; }
std::string device_text(const AnyContext& /*context*/) { return "a CPU as a GPU"; }

}  // namespace tandem
