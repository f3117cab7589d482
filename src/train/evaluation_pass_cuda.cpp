#include <cuda_runtime_api.h>

#include <array>
#include <optional>
#include <utility>

#include "device/cuda_check.h"
#include "device/cuda_event.h"
#include "device/cuda_graph.h"
#include "device/pinned_memory.h"
#include "device/trace_range.h"
#include "optim/context_table.h"
#include "parallel/stream_watch.h"
#include "train/evaluation_pass.h"
#include "train/step/device_input.h"

namespace tandem {
namespace {

/// Whole batches as launches of one graph, for launching the layers of a small model one by one
/// takes longer than they do; the first one as it is, so that all code is loaded before the
/// capture. Two batches are under way at most: the device has the next one as it ends one.
class CapturedPass final : public EvaluationPass {
 public:
  CapturedPass(CudaContext& context, const EvaluationParts& parts)
      : context_(context),
        parts_(parts),
        sums_(parts.context, 4, "an evaluation's sums"),
        found_(context),
        input_(context, parts.raw.layout) {}

  LossSums take(const Batch& batch) override {
    input_.upload(batch.raw);
    input_.advance();
    const LossSums before = collect(next_);
    enqueue(batch.valid);
    TANDEM_CUDA_CHECK(cudaMemcpyAsync((*found_)[next_].data(), sums_.rows().data(), sizeof(Sums),
                                      cudaMemcpyDeviceToHost, context_.stream()));
    done_[next_].record(context_);
    under_way_[next_] = true;
    next_ = 1 - next_;
    parts_.communicator.report_progress();
    return before;
  }

  LossSums finish() override {
    LossSums rest = collect(next_);  // the older one
    rest += collect(1 - next_);
    return rest;
  }

 private:
  using Sums = std::array<float, 4>;

  LossSums collect(std::size_t place) {
    if (!under_way_[place]) return {};
    // Steps before it have been waited for, on all ranks (StepRunner::settle_together()): the
    // device waits for no other.
    wait_for_event(parts_.communicator, done_[place].handle(), "the evaluation of a batch",
                   Awaited::own_device);
    under_way_[place] = false;
    const Sums& sums = (*found_)[place];
    return {.loss = static_cast<double>(sums[0]),
            .samples = static_cast<std::int64_t>(sums[1]),
            .top1 = static_cast<std::int64_t>(sums[2]),
            .top5 = static_cast<std::int64_t>(sums[3])};
  }

  void enqueue(std::int64_t valid) {
    if (valid < parts_.plan.batch() || !std::exchange(ran_, true)) {
      enqueue_layers(valid);
      return;
    }
    if (!graph_) {
      const TraceRange range("capture");
      graph_.emplace(context_, [this] { enqueue_layers(parts_.plan.batch()); });
    }
    const TraceRange range("launch");
    graph_->launch();
  }

  void enqueue_layers(std::int64_t valid) {
    enqueue_input(context_, input_.current(), parts_.raw.spec, parts_.images);
    parts_.plan.enqueue_forward(parts_.images, {.labels = input_.current().labels}, valid, {},
                                nullptr, Tensor(sums_.rows().data(), {4}));
  }

  CudaContext& context_;
  EvaluationParts parts_;
  ContextTable<float> sums_;
  PinnedMemory<std::array<Sums, 2>> found_;
  DeviceInput input_;  // behind what batches under way write, for it waits for them as it goes
  std::array<CudaEvent, 2> done_;
  std::array<bool, 2> under_way_{};
  std::size_t next_ = 0;
  bool ran_ = false;
  std::optional<CudaGraph> graph_;
};

}  // namespace

std::unique_ptr<EvaluationPass> make_evaluation_pass(CudaContext& context,
                                                     const EvaluationParts& parts) {
  return std::make_unique<CapturedPass>(context, parts);
}

}  // namespace tandem
