#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"

namespace tandem {
namespace {

void copy(CudaContext& context, const void* from, std::size_t bytes, void* to,
          cudaMemcpyKind kind) {
  if (bytes == 0) return;
  context.activate();
  TANDEM_CUDA_CHECK(cudaMemcpyAsync(to, from, bytes, kind, context.stream()));
  context.synchronize();
}

}  // namespace

void copy_to_device(CudaContext& context, const void* host, std::size_t bytes, void* device) {
  copy(context, host, bytes, device, cudaMemcpyHostToDevice);
}

void copy_to_host(CudaContext& context, const void* device, std::size_t bytes, void* host) {
  copy(context, device, bytes, host, cudaMemcpyDeviceToHost);
}

void copy_on_device(CudaContext& context, const void* from, std::size_t bytes, void* to) {
  copy(context, from, bytes, to, cudaMemcpyDeviceToDevice);
}

void set_to_zero(CudaContext& context, void* data, std::size_t bytes) {
  if (bytes == 0) return;
  context.activate();
  TANDEM_CUDA_CHECK(cudaMemsetAsync(data, 0, bytes, context.stream()));
  context.synchronize();
}

void synchronize(CudaContext& context) { context.synchronize(); }

std::optional<std::size_t> device_bytes_in_use(const CudaContext& context) {
  return context.device().memory_bytes - context.free_bytes();
}

}  // namespace tandem
