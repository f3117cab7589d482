#pragma once

#include <memory>

#include "device/cuda_context.h"

/// CUDA's event, whose handle is a pointer to this.
struct CUevent_st;

namespace tandem {

/// A moment of a context's stream, for timing.
class CudaEvent {
 public:
  CudaEvent();
  ~CudaEvent();
  CudaEvent(CudaEvent&&) noexcept;
  CudaEvent& operator=(CudaEvent&&) noexcept;

  /// The moment at which everything enqueued so far is done. While the stream is captured, that
  /// moment of each launch of the graph.
  void record(const CudaContext& context);
  /// For calls of CUDA.
  CUevent_st* handle() const;
  /// Waits for that moment.
  void synchronize() const;
  /// From `earlier`'s moment to this one's, in seconds; both have passed.
  double seconds_since(const CudaEvent& earlier) const;

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
