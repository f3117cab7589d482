#include "parallel/colocated/ipc_memory.h"

#include <utility>

#include "device/cuda_check.h"
#include "parallel/colocated/driver_functions.h"

namespace tandem {

IpcAddress ipc_address(const void* memory) {
  const auto at = reinterpret_cast<CUdeviceptr>(memory);
  CUdeviceptr begin = 0;
  std::size_t bytes = 0;
  check_driver(driver_functions().address_range(&begin, &bytes, at), "cuMemGetAddressRange");
  IpcAddress address{};
  TANDEM_CUDA_CHECK(cudaIpcGetMemHandle(&address.allocation, reinterpret_cast<void*>(begin)));
  address.offset = at - begin;
  return address;
}

PeerMemory::PeerMemory(const IpcAddress& address) : offset_(address.offset) {
  const cudaError_t status =
      cudaIpcOpenMemHandle(&allocation_, address.allocation, cudaIpcMemLazyEnablePeerAccess);
  if (status == cudaSuccess) return;
  system_error(
      "memory of another rank on the same GPU cannot be opened: {} ({}); the ranks of a GPU must "
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
