#pragma once

#include <cstddef>

namespace tandem {

class CudaContext;

/// A piece of a CUDA device's memory, 256-byte aligned, freed with it; for code that has a
/// CudaContext, as Arena is for code that has any context. The context outlives it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// Not cleared. Throws OutOfMemory where there is not as much.
  DeviceBuffer(CudaContext& context, std::size_t bytes);
  /// Cleared to zero, in the order of the context's stream.
  static DeviceBuffer zeroed(CudaContext& context, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  /// Null by default, moved from or left.
  std::byte* data() const { return data_; }
  /// As elements of `T`, which fit its alignment.
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }
  /// Leaves the memory allocated until the process ends: where other processes' devices may still
  /// use it.
  void leave() noexcept;

 private:
  void free() noexcept;

  CudaContext* context_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tandem
