#include "device/device_buffer.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_context.h"

namespace tandem {

DeviceBuffer::DeviceBuffer(CudaContext& context, std::size_t bytes)
    : context_(&context), data_(static_cast<std::byte*>(context.allocate(bytes))), bytes_(bytes) {}

DeviceBuffer DeviceBuffer::zeroed(CudaContext& context, std::size_t bytes) {
  DeviceBuffer memory(context, bytes);
  TANDEM_CUDA_CHECK(cudaMemsetAsync(memory.data(), 0, bytes, context.stream()));
  return memory;
}

DeviceBuffer::~DeviceBuffer() { free(); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : context_(other.context_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this != &other) {
    free();
    context_ = other.context_;
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void DeviceBuffer::leave() noexcept {
  data_ = nullptr;
  bytes_ = 0;
}

void DeviceBuffer::free() noexcept {
  if (data_ != nullptr) context_->deallocate(data_);
}

}  // namespace tandem
