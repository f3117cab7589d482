#include <cuda_runtime_api.h>

#include "base/text.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/pinned_memory.h"

namespace tandem {

std::shared_ptr<std::byte> allocate_pinned(CudaContext& context, std::size_t bytes) {
  context.activate();
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, bytes == 0 ? 1 : bytes, cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    throw Error(fmt::format("out of memory: {} of page-locked host memory could not be allocated",
                            format_bytes(bytes)));
  }
  TANDEM_CUDA_CHECK(status);
  // What fails in freeing failed before, and was said then.
  return {static_cast<std::byte*>(memory), [](std::byte* mine) { (void)cudaFreeHost(mine); }};
}

std::function<std::shared_ptr<std::byte>(std::size_t bytes)> pinned_allocator(AnyContext& context) {
  auto* gpu = std::get_if<CudaContext>(&context);
  if (gpu == nullptr) return {};
  return [gpu](std::size_t bytes) { return allocate_pinned(*gpu, bytes); };
}

}  // namespace tandem
