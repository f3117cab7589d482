#pragma once

// Included by sources only.

#include <cuda_runtime_api.h>

#include <memory>
#include <new>
#include <type_traits>

#include "device/cuda_check.h"

namespace tandem {

/// One T in host memory that a device copies from and to without waiting.
template <typename T>
class PinnedMemory {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  PinnedMemory() {
    void* memory = nullptr;
    TANDEM_CUDA_CHECK(cudaMallocHost(&memory, sizeof(T)));
    value_.reset(new (memory) T{});
  }
  T& operator*() const { return *value_; }
  T* get() const { return value_.get(); }

 private:
  struct Free {
    void operator()(T* value) const { (void)cudaFreeHost(value); }
  };
  std::unique_ptr<T, Free> value_;
};

}  // namespace tandem
