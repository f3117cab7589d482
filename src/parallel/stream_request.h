#pragma once

// Included by sources only.

#include <cuda_runtime_api.h>

#include "parallel/communicator.h"
#include "parallel/cuda_event_pool.h"

namespace tandem {

class CudaContext;

/// What a stream was given so far, as a request: done once that has passed. What waits is the
/// context's stream of that time, which need not be the one of now.
class StreamRequest final : public Request {
 public:
  /// Pool and context outlive it.
  StreamRequest(CudaEventPool& events, cudaStream_t recorded_on, const CudaContext& waiting);
  ~StreamRequest() override;

  bool test() override;
  void wait() override;

 private:
  CudaEventPool& events_;
  const CudaContext& waiting_;
  cudaEvent_t event_;
  bool captured_;
  bool done_ = false;
};

}  // namespace tandem
