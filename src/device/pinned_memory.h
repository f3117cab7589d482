#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <type_traits>

#include "device/any_context.h"

namespace tandem {

class CudaContext;

/// Page-locked host memory, 256-byte aligned: the device copies from and to it while the host goes
/// on. Throws Error naming the size where there is none. It may outlive the context.
std::shared_ptr<std::byte> allocate_pinned(CudaContext& context, std::size_t bytes);

/// allocate_pinned() of the context's device; empty where the context's memory is the host's. The
/// context must outlive the function, not the memory.
std::function<std::shared_ptr<std::byte>(std::size_t bytes)> pinned_allocator(AnyContext& context);

/// One T in page-locked memory.
template <typename T>
class PinnedMemory {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  explicit PinnedMemory(CudaContext& context)
      : memory_(allocate_pinned(context, sizeof(T))), value_(new (memory_.get()) T{}) {}

  T& operator*() const { return *value_; }
  T* get() const { return value_; }

 private:
  std::shared_ptr<std::byte> memory_;
  T* value_;
};

}  // namespace tandem
