#pragma once

// Included by sources only.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace tandem {

/// Where memory of one process's device is, for another process to open. Trivially copyable.
struct IpcAddress {
  cudaIpcMemHandle_t allocation;  // whole allocations are opened
  std::uint64_t offset;           // of the memory in it, in bytes
};

/// Of memory within one cudaMalloc of the calling thread's device, which is what
/// CudaContext::allocate() and DeviceBuffer give.
IpcAddress ipc_address(const void* memory);
/// What CudaContext::allocate() gave that holds this memory.
void* allocation_of(const void* memory);

/// Memory of another process, on this device or on one that this one reaches, mapped into this one.
/// Its owner must not free it before.
class PeerMemory {
 public:
  /// Throws SystemError where the processes cannot share memory.
  explicit PeerMemory(const IpcAddress& address);
  ~PeerMemory();
  PeerMemory(PeerMemory&& other) noexcept;
  PeerMemory& operator=(PeerMemory&& other) noexcept;

  std::byte* data() const { return static_cast<std::byte*>(allocation_) + offset_; }
  /// Leaves it mapped for as long as the process lives.
  void leave() { allocation_ = nullptr; }

 private:
  void close() noexcept;

  void* allocation_ = nullptr;  // null once moved from or left
  std::uint64_t offset_ = 0;
};

}  // namespace tandem
