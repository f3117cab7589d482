#include "device/pinned_allocator.h"
#include "device/pinned_memory.h"

namespace tandem {

std::function<std::shared_ptr<std::byte>(std::size_t bytes)> pinned_allocator(AnyContext& context) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return {};
  return [gpu](std::size_t bytes) { return allocate_pinned(*gpu, bytes); };
}

}  // namespace tandem
