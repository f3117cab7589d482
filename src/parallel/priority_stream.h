#pragma once

// Included by sources only.

#include "device/cuda_check.h"

namespace tandem {

/// A stream of the calling thread's device that goes before those of usual priority.
class PriorityStream {
 public:
  PriorityStream() {
    int least = 0;
    int greatest = 0;
    TANDEM_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TANDEM_CUDA_CHECK(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
  }
  // What fails here failed before, and was said then.
  ~PriorityStream() { (void)cudaStreamDestroy(stream_); }
  PriorityStream(const PriorityStream&) = delete;
  PriorityStream& operator=(const PriorityStream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace tandem
