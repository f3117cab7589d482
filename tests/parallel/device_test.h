#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "parallel/device_communicator.h"
#include "parallel/mpi_test.h"

namespace tandem {

/// This rank's GPU, and the ranks' communicator over such. world() is the same with host memory:
/// every tensor is brought to the GPU and back.
CudaContext& gpu();
Communicator& gpus();
/// What the GPUs' communicator was started from.
Communicator& hosts();

/// How several GPUs that ranks share exchange gradients: as TANDEM_TEST_EXCHANGE in the environment
/// says, nccl or direct, else nccl.
inline DeviceLinkOptions links_of_test() {
  const char* exchange = std::getenv("TANDEM_TEST_EXCHANGE");
  const bool direct = exchange != nullptr && std::string_view(exchange) == "direct";
  return {.exchange = direct ? ExchangeKind::direct : ExchangeKind::nccl};
}

/// Whether NCCL is told to use sockets between the ranks of a host, whose closing shows, and not
/// memory that GPUs map.
inline bool nccl_uses_sockets() {
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || std::string_view(value) != "1") return false;
  }
  return true;
}

/// Enqueues a copy in the GPU's memory.
inline void enqueue_copy(const float* from, std::int64_t elements, float* to) {
  if (elements == 0) return;
  TANDEM_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(elements) * sizeof(float),
                                    cudaMemcpyDeviceToDevice, gpu().stream()));
}
/// Enqueues a copy of the first `width` of each `pitch` elements.
inline void enqueue_copy_of_rows(const float* from, std::int64_t elements, std::int64_t width,
                                 std::int64_t pitch, float* to) {
  const auto bytes = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(float);
  };
  TANDEM_CUDA_CHECK(cudaMemcpy2DAsync(to, bytes(width), from, bytes(pitch), bytes(width),
                                      static_cast<std::size_t>(elements / pitch),
                                      cudaMemcpyDeviceToDevice, gpu().stream()));
}

/// Values in the GPU's memory.
template <typename T>
class OnGpu {
 public:
  explicit OnGpu(const std::vector<T>& values)
      : count_(values.size()), memory_(gpu().allocate(count_ * sizeof(T))) {
    set(values);
  }
  ~OnGpu() { gpu().deallocate(memory_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  T* data() const { return static_cast<T*>(memory_); }
  Tensor tensor(DType dtype) const { return {memory_, {static_cast<std::int64_t>(count_)}, dtype}; }
  void set(const std::vector<T>& values) const {
    copy_to_device(gpu(), values.data(), count_ * sizeof(T), memory_);
  }
  /// After everything that was enqueued.
  std::vector<T> get() const {
    std::vector<T> values(count_);
    copy_to_host(gpu(), memory_, count_ * sizeof(T), values.data());
    return values;
  }

 private:
  std::size_t count_;
  void* memory_;
};

/// The ranks' contributions, added up. Whole numbers, exact in every type and order.
template <typename T>
std::vector<T> sums(std::size_t count) {
  std::vector<T> total(count);
  for (int rank = 0; rank < gpus().size(); ++rank) {
    for (std::size_t i = 0; i < count; ++i) total[i] += contribution<T>(rank, i);
  }
  return total;
}

}  // namespace tandem
