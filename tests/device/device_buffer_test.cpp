#include "device/device_buffer.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "device/cuda_context.h"
#include "device/memory_kernels.h"

namespace tandem {
namespace {

/// Whether it lies in memory that cudaMalloc() gave and nobody has freed.
bool is_allocated(const void* memory) {
  cudaPointerAttributes attributes{};
  const bool known = cudaPointerGetAttributes(&attributes, memory) == cudaSuccess;
  (void)cudaGetLastError();
  return known && attributes.type == cudaMemoryTypeDevice;
}

TEST(DeviceBuffer, HasMemoryForAsLongAsItLives) {
  CudaContext context(0);
  const void* memory = nullptr;
  {
    const DeviceBuffer buffer(context, 1000);
    memory = buffer.data();
    EXPECT_EQ(buffer.bytes(), 1000U);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
    EXPECT_EQ(static_cast<const void*>(buffer.as<float>()), memory);
    EXPECT_TRUE(is_allocated(memory));
  }
  EXPECT_FALSE(is_allocated(memory));
}

TEST(DeviceBuffer, IsClearedOnRequest) {
  CudaContext context(0);
  constexpr std::size_t count = 100'000;
  const DeviceBuffer buffer = DeviceBuffer::zeroed(context, count * sizeof(int));
  std::vector<int> values(count, 1);
  copy_to_host(context, buffer.data(), buffer.bytes(), values.data());
  EXPECT_EQ(values, std::vector<int>(count));
  EXPECT_EQ(DeviceBuffer::zeroed(context, 0).bytes(), 0U);
}

TEST(DeviceBuffer, MovesItsMemoryAndFreesWhatWasThere) {
  CudaContext context(0);
  DeviceBuffer first(context, 1000);
  const void* const memory = first.data();
  DeviceBuffer second(context, 2000);
  const void* const replaced = second.data();
  second = std::move(first);
  EXPECT_EQ(second.data(), memory);
  EXPECT_EQ(second.bytes(), 1000U);
  EXPECT_TRUE(is_allocated(memory));
  EXPECT_FALSE(is_allocated(replaced));
  const DeviceBuffer third(std::move(second));
  EXPECT_EQ(third.data(), memory);
  DeviceBuffer none;
  EXPECT_EQ(none.data(), nullptr);
  none = DeviceBuffer();
  EXPECT_EQ(none.bytes(), 0U);
}

TEST(DeviceBuffer, LeavesItsMemoryOnRequest) {
  CudaContext context(0);
  void* memory = nullptr;
  {
    DeviceBuffer buffer(context, 1000);
    memory = buffer.data();
    buffer.leave();
    EXPECT_EQ(buffer.data(), nullptr);
  }
  EXPECT_TRUE(is_allocated(memory));
  context.deallocate(memory);
}

}  // namespace
}  // namespace tandem
