#include "device/cuda_event.h"

#include <cuda_runtime_api.h>

#include "device/cuda_check.h"

namespace tandem {

struct CudaEvent::Handle {
  Handle() { TANDEM_CUDA_CHECK(cudaEventCreate(&event)); }
  // What fails here failed before, and was said then.
  ~Handle() { (void)cudaEventDestroy(event); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  cudaEvent_t event = nullptr;
};

CudaEvent::CudaEvent() : handle_(std::make_unique<Handle>()) {}
CudaEvent::~CudaEvent() = default;
CudaEvent::CudaEvent(CudaEvent&&) noexcept = default;
CudaEvent& CudaEvent::operator=(CudaEvent&&) noexcept = default;

void CudaEvent::record(const CudaContext& context) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TANDEM_CUDA_CHECK(cudaStreamIsCapturing(context.stream(), &status));
  // A captured record is else a mere dependency inside the graph.
  TANDEM_CUDA_CHECK(cudaEventRecordWithFlags(
      handle_->event, context.stream(),
      status == cudaStreamCaptureStatusNone ? cudaEventRecordDefault : cudaEventRecordExternal));
}

CUevent_st* CudaEvent::handle() const { return handle_->event; }

void CudaEvent::synchronize() const { TANDEM_CUDA_CHECK(cudaEventSynchronize(handle_->event)); }

double CudaEvent::seconds_since(const CudaEvent& earlier) const {
  float milliseconds = 0.0F;
  TANDEM_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, earlier.handle_->event, handle_->event));
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace tandem
