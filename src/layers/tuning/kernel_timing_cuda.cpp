#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/error.h"
#include "base/heartbeat.h"
#include "base/log.h"
#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "layers/tuning/kernel_timing.h"

namespace tandem {
namespace {

constexpr int rounds = 5;
constexpr float round_ms = 1.0F;
constexpr int most_repeats = 50;
/// A run that takes this many times the best so far needs no second look; but one that the host
/// starts by itself seems to take up to so much longer than it does.
constexpr float hopeless = 1.4F;
constexpr float start_ms = 0.05F;

struct EventDeleter {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
struct GraphDeleter {
  void operator()(CUgraph_st* graph) const { (void)cudaGraphDestroy(graph); }
};
struct GraphExecDeleter {
  void operator()(CUgraphExec_st* graph) const { (void)cudaGraphExecDestroy(graph); }
};
using Event = std::unique_ptr<CUevent_st, EventDeleter>;
using CapturedGraph = std::unique_ptr<CUgraph_st, GraphDeleter>;
using ExecutableGraph = std::unique_ptr<CUgraphExec_st, GraphExecDeleter>;

Event make_event() {
  cudaEvent_t event = nullptr;
  TANDEM_CUDA_CHECK(cudaEventCreate(&event));
  return Event(event);
}

class Stopwatch {
 public:
  explicit Stopwatch(CudaContext& context)
      : context_(&context), begin_(make_event()), end_(make_event()) {}

  float measure(const std::function<void()>& enqueue) {
    TANDEM_CUDA_CHECK(cudaEventRecord(begin_.get(), context_->stream()));
    enqueue();
    TANDEM_CUDA_CHECK(cudaEventRecord(end_.get(), context_->stream()));
    TANDEM_CUDA_CHECK(cudaEventSynchronize(end_.get()));
    float ms = 0.0F;
    TANDEM_CUDA_CHECK(cudaEventElapsedTime(&ms, begin_.get(), end_.get()));
    return ms;
  }

 private:
  CudaContext* context_;
  Event begin_;
  Event end_;
};

/// `repeats` calls of `enqueue` as one graph. Ends the capture also where a call throws.
ExecutableGraph capture(CudaContext& context, int repeats, const std::function<void()>& enqueue) {
  cudaGraph_t graph = nullptr;
  TANDEM_CUDA_CHECK(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal));
  try {
    for (int i = 0; i < repeats; ++i) enqueue();
  } catch (...) {
    // The call's own error is the one to tell.
    (void)cudaStreamEndCapture(context.stream(), &graph);
    (void)cudaGetLastError();
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
    throw;
  }
  TANDEM_CUDA_CHECK(cudaStreamEndCapture(context.stream(), &graph));
  const CapturedGraph owned(graph);
  cudaGraphExec_t executable = nullptr;
  TANDEM_CUDA_CHECK(cudaGraphInstantiate(&executable, graph, 0));
  return ExecutableGraph(executable);
}

float measure_thoroughly(CudaContext& context, const std::function<void()>& enqueue, float once) {
  Stopwatch watch(context);
  const int repeats =
      std::clamp(static_cast<int>(round_ms / std::max(once, 1e-4F)), 1, most_repeats);
  const ExecutableGraph graph = capture(context, repeats, enqueue);
  const auto launch = [&] { TANDEM_CUDA_CHECK(cudaGraphLaunch(graph.get(), context.stream())); };
  launch();
  std::array<float, rounds> times{};
  for (float& time : times) time = watch.measure(launch);
  std::ranges::sort(times);
  return times[rounds / 2] / static_cast<float>(repeats);
}

}  // namespace

std::optional<float> time_kernels(CudaContext& context, const std::function<void()>& enqueue,
                                  float best) {
  heartbeat();
  try {
    enqueue();  // loads the code
    context.synchronize();
    const float once = Stopwatch(context).measure(enqueue);
    if (once - start_ms > hopeless * best) return once;
    return measure_thoroughly(context, enqueue, once);
  } catch (const SystemError& error) {
    log_debug("a kernel is left out: {}", error.what());
    // A fault of the device stays; this throws then.
    context.synchronize();
    (void)cudaGetLastError();
    return std::nullopt;
  }
}

void run_captured(CudaContext& context, const std::function<void()>& enqueue) {
  const ExecutableGraph graph = capture(context, 1, enqueue);
  TANDEM_CUDA_CHECK(cudaGraphLaunch(graph.get(), context.stream()));
  context.synchronize();
}

}  // namespace tandem
