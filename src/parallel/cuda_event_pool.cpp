#include "parallel/cuda_event_pool.h"

#include "device/cuda_check.h"

namespace tandem {

// What fails here failed before, and was said then.
CudaEventPool::~CudaEventPool() {
  for (const cudaEvent_t event : all_) (void)cudaEventDestroy(event);
}

cudaEvent_t CudaEventPool::take() {
  if (free_.empty()) {
    all_.reserve(all_.size() + 1);
    free_.reserve(all_.size() + 1);
    cudaEvent_t event = nullptr;
    TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    all_.push_back(event);
    return event;
  }
  const cudaEvent_t event = free_.back();
  free_.pop_back();
  return event;
}

}  // namespace tandem
