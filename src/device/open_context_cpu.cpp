#include <fmt/format.h>

#include "base/error.h"
#include "device/open_context.h"

namespace tandem {

bool built_with_cuda() { return false; }

int usable_gpus() { return 0; }

AnyContext open_gpu(int /*index*/) {
  input_error(
      "this Tandem was built without CUDA; build it where the CUDA Toolkit, cuDNN and NCCL "
      "are, or set train.device = \"cpu\"");
}

std::string device_uuid(const AnyContext& /*context*/) { return {}; }

std::string device_text(const AnyContext& context) {
  const int threads = std::get<CpuContext>(context).threads();
  return fmt::format("{} compute thread{}", threads, threads == 1 ? "" : "s");
}

}  // namespace tandem
