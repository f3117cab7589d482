#include "parallel/stream_request.h"

#include "device/cuda_check.h"
#include "device/cuda_context.h"

namespace tandem {
namespace {

/// Whether the stream is being captured into a graph, when nothing may be asked of the device.
bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  TANDEM_CUDA_CHECK(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

StreamRequest::StreamRequest(CudaEventPool& events, cudaStream_t recorded_on,
                             const CudaContext& waiting)
    : events_(events),
      waiting_(waiting),
      event_(events.take()),
      captured_(is_capturing(recorded_on)) {
  const cudaError_t status = cudaEventRecord(event_, recorded_on);
  if (status != cudaSuccess) events_.give_back(event_);
  TANDEM_CUDA_CHECK(status);
}

StreamRequest::~StreamRequest() { events_.give_back(event_); }

bool StreamRequest::test() {
  if (done_) return true;
  // Captured, it is done in each launch of the graph, and never here.
  if (captured_ || is_capturing(waiting_.stream())) return false;
  const cudaError_t status = cudaEventQuery(event_);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // that is an answer, no error
    return false;
  }
  TANDEM_CUDA_CHECK(status);
  return done_ = true;
}

void StreamRequest::wait() {
  if (!done_) TANDEM_CUDA_CHECK(cudaStreamWaitEvent(waiting_.stream(), event_, 0));
}

}  // namespace tandem
