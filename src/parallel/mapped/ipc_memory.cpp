#include "parallel/mapped/ipc_memory.h"

#include <bit>
#include <utility>

#include "device/cuda_check.h"
#include "parallel/mapped/driver_functions.h"

namespace tandem {

void* allocation_of(const void* memory) {
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  check_driver(
      driver_functions().address_range(&begin, &bytes, reinterpret_cast<CUdeviceptr>(memory)),
      "cuMemGetAddressRange");
  return std::bit_cast<void*>(begin);
}

IpcAddress ipc_address(const void* memory) {
  void* begin = allocation_of(memory);
  IpcAddress address{};
  TANDEM_CUDA_CHECK(cudaIpcGetMemHandle(&address.allocation, begin));
  address.offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(memory) -
                                              static_cast<const std::byte*>(begin));
  return address;
}

PeerMemory::PeerMemory(const IpcAddress& address) : offset_(address.offset) {
  const cudaError_t status =
      cudaIpcOpenMemHandle(&allocation_, address.allocation, cudaIpcMemLazyEnablePeerAccess);
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();  // who does without it launches kernels next
  system_error(
      "memory of another rank of this host cannot be opened: {} ({}); ranks that share memory must "
      "belong to one user and one container, and either all or none of them be MPS clients",
      cudaGetErrorString(status), cudaGetErrorName(status));
}

PeerMemory::~PeerMemory() { close(); }

PeerMemory::PeerMemory(PeerMemory&& other) noexcept
    : allocation_(std::exchange(other.allocation_, nullptr)), offset_(other.offset_) {}

PeerMemory& PeerMemory::operator=(PeerMemory&& other) noexcept {
  if (this != &other) {
    close();
    allocation_ = std::exchange(other.allocation_, nullptr);
    offset_ = other.offset_;
  }
  return *this;
}

void PeerMemory::close() noexcept {
  // What fails here failed before, and was said then.
  if (allocation_ != nullptr) (void)cudaIpcCloseMemHandle(allocation_);
}

}  // namespace tandem
