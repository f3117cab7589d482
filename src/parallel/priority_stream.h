#pragma once

// Included by sources only.

#include <cstdint>

#include "device/cuda_check.h"

namespace tandem {

enum class StreamPriority : std::uint8_t { usual, high };

/// A stream of the calling thread's device; one of high priority goes before those of usual.
class PriorityStream {
 public:
  explicit PriorityStream(StreamPriority priority = StreamPriority::high) {
    int usual = 0;
    int high = 0;
    TANDEM_CUDA_CHECK(cudaDeviceGetStreamPriorityRange(&usual, &high));
    TANDEM_CUDA_CHECK(cudaStreamCreateWithPriority(
        &stream_, cudaStreamNonBlocking, priority == StreamPriority::high ? high : usual));
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
