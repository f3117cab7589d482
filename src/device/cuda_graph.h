#pragma once

#include <functional>
#include <memory>

#include "device/cuda_context.h"

namespace tandem {

/// What was enqueued on a context's stream, to be launched again and again in one call. The memory
/// that the work is bound to must outlive the graph, and so must the context.
class CudaGraph {
 public:
  /// Captures what `enqueue` enqueues; none of it runs. It must neither allocate device memory nor
  /// wait for the device. Throws SystemError where something in it cannot be captured.
  CudaGraph(const CudaContext& context, const std::function<void()>& enqueue);
  ~CudaGraph();
  CudaGraph(CudaGraph&&) noexcept;
  CudaGraph& operator=(CudaGraph&&) noexcept;

  /// Enqueues the whole of it on the context's stream.
  void launch();

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace tandem
