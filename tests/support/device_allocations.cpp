#include "support/device_allocations.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<long> allocations{0};

/// The function of that name in libcudart.
template <typename Function>
Function* real(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

}  // namespace

extern "C" cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  static auto* const allocate = real<cudaError_t(void**, std::size_t)>("cudaMalloc");
  ++allocations;
  return allocate(memory, bytes);
}

extern "C" cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned int flags) {
  static auto* const allocate =
      real<cudaError_t(void**, std::size_t, unsigned int)>("cudaHostAlloc");
  ++allocations;
  return allocate(memory, bytes, flags);
}

namespace tandem {

long device_allocations() { return allocations; }

}  // namespace tandem
