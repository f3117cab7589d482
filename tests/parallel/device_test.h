#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "parallel/mpi_test.h"

namespace tandem {

/// This rank's GPU, and the ranks' communicator over such. world() is the same with host memory:
/// every tensor is brought to the GPU and back.
CudaContext& gpu();
Communicator& gpus();
/// What the GPUs' communicator was started from.
Communicator& hosts();

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
  void set(const std::vector<T>& values) {
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
