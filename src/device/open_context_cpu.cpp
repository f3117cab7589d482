#include <fmt/format.h>

#include "base/error.h"
#include "device/open_context.h"

namespace tandem {

bool built_with_cuda() { return false; }

int usable_gpus() { return 0; }

std::string gpu_problem() { return {}; }

AnyContext open_gpu(int /*index*/) {
  input_error(
      "this Tandem was built without CUDA; build it where the CUDA Toolkit, cuDNN and NCCL are "
      "(TANDEM_CUDA=ON ./quickstart.sh), or set train.device = \"cpu\"");
}

std::string device_uuid(const AnyContext& /*context*/) { return {}; }

std::optional<DeviceMemory> device_memory(const AnyContext& /*context*/) { return std::nullopt; }

KernelChoices* kernel_choices(AnyContext& /*context*/) { return nullptr; }

std::vector<std::shared_ptr<const void>> prepared_work(AnyContext& /*context*/) { return {}; }

std::string device_text(const AnyContext& context) {
  const int threads = std::get<CpuContext>(context).threads();
  return fmt::format("{} compute thread{}", threads, threads == 1 ? "" : "s");
}

}  // namespace tandem
