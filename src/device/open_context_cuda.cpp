#include <fmt/format.h>

#include <utility>

#include "device/cuda_libraries.h"
#include "device/open_context.h"

namespace tandem {

bool built_with_cuda() { return true; }

int usable_gpus() { return cuda_device_count(); }

std::string gpu_problem() { return cuda_problem(); }

AnyContext open_gpu(int index) { return AnyContext(std::in_place_type<CudaContext>, index); }

std::string device_uuid(const AnyContext& context) {
  const auto* gpu = std::get_if<CudaContext>(&context);
  return gpu == nullptr ? std::string() : gpu->device().uuid;
}

std::optional<DeviceMemory> device_memory(const AnyContext& context) {
  const auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return std::nullopt;
  return DeviceMemory{
      .device = gpu->device().name, .total = gpu->device().memory_bytes, .free = gpu->free_bytes()};
}

KernelChoices* kernel_choices(AnyContext& context) {
  auto* gpu = std::get_if<CudaContext>(&context);
  return gpu == nullptr ? nullptr : &gpu->libraries().choices;
}

std::vector<std::shared_ptr<const void>> prepared_work(AnyContext& context) {
  std::vector<std::shared_ptr<const void>> work;
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return work;
  for (const auto& [key, shared] : gpu->libraries().prepared) {
    if (auto used = shared.lock()) work.push_back(std::move(used));
  }
  return work;
}

std::string device_text(const AnyContext& context) {
  if (const auto* gpu = std::get_if<CudaContext>(&context)) return gpu->device().name;
  const int threads = std::get<CpuContext>(context).threads();
  return fmt::format("{} compute thread{}", threads, threads == 1 ? "" : "s");
}

}  // namespace tandem
