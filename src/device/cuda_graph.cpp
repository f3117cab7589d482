#include "device/cuda_graph.h"

#include <cuda_runtime_api.h>

#include "device/cuda_check.h"

namespace tandem {

struct CudaGraph::Handles {
  explicit Handles(cudaStream_t the_stream) : stream(the_stream) {}
  // What fails here failed before, and was said then.
  ~Handles() {
    if (executable != nullptr) (void)cudaGraphExecDestroy(executable);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudaStream_t stream;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
};

CudaGraph::CudaGraph(const CudaContext& context, const std::function<void()>& enqueue)
    : handles_(std::make_unique<Handles>(context.stream())) {
  context.activate();
  // Other threads go on calling CUDA.
  TANDEM_CUDA_CHECK(cudaStreamBeginCapture(handles_->stream, cudaStreamCaptureModeThreadLocal));
  try {
    enqueue();
  } catch (...) {
    // The first error is the one to tell; this one follows from it.
    (void)cudaStreamEndCapture(handles_->stream, &handles_->graph);
    (void)cudaGetLastError();
    throw;
  }
  TANDEM_CUDA_CHECK(cudaStreamEndCapture(handles_->stream, &handles_->graph));
  // Work captured from a stream of high priority keeps it.
  TANDEM_CUDA_CHECK(cudaGraphInstantiate(&handles_->executable, handles_->graph,
                                         cudaGraphInstantiateFlagUseNodePriority));
}

CudaGraph::~CudaGraph() = default;
CudaGraph::CudaGraph(CudaGraph&&) noexcept = default;
CudaGraph& CudaGraph::operator=(CudaGraph&&) noexcept = default;

void CudaGraph::launch() {
  TANDEM_CUDA_CHECK(cudaGraphLaunch(handles_->executable, handles_->stream));
}

}  // namespace tandem
