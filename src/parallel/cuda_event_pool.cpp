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

void CudaEventPool::order(cudaStream_t first, cudaStream_t then) {
  const cudaEvent_t event = take();
  const cudaError_t recorded = cudaEventRecord(event, first);
  // The wait is for what was recorded now, whatever the event is used for afterwards.
  const cudaError_t awaited =
      recorded == cudaSuccess ? cudaStreamWaitEvent(then, event, 0) : cudaSuccess;
  give_back(event);
  TANDEM_CUDA_CHECK(recorded);
  TANDEM_CUDA_CHECK(awaited);
}

}  // namespace tandem
