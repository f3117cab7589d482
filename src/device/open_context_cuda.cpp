#include <fmt/format.h>

#include "device/open_context.h"

namespace tandem {

bool built_with_cuda() { return true; }

int usable_gpus() { return cuda_device_count(); }

AnyContext open_gpu(int index) { return AnyContext(std::in_place_type<CudaContext>, index); }

std::string device_uuid(const AnyContext& context) {
  const auto* gpu = std::get_if<CudaContext>(&context);
  return gpu == nullptr ? std::string() : gpu->device().uuid;
}

std::string device_text(const AnyContext& context) {
  if (const auto* gpu = std::get_if<CudaContext>(&context)) return gpu->device().name;
  const int threads = std::get<CpuContext>(context).threads();
  return fmt::format("{} compute thread{}", threads, threads == 1 ? "" : "s");
}

}  // namespace tandem
