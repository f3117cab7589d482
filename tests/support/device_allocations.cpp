#include "support/device_allocations.h"

#include <cuda_runtime_api.h>

#include <atomic>

#include "support/function_behind.h"

namespace {

std::atomic<long> allocations{0};

}  // namespace

extern "C" cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  static auto* const allocate = function_behind<cudaError_t(void**, std::size_t)>("cudaMalloc");
  ++allocations;
  return allocate(memory, bytes);
}

extern "C" cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  static auto* const allocate =
      function_behind<cudaError_t(void**, std::size_t, unsigned int)>("cudaHostAlloc");
  ++allocations;
  return allocate(memory, bytes, flags);
}

namespace tandem {

long device_allocations() { return allocations; }

}  // namespace tandem
