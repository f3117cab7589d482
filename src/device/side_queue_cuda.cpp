#include <cuda_runtime_api.h>

#include <vector>

#include "device/cuda_check.h"
#include "device/cuda_context.h"
#include "device/side_queue.h"

namespace tandem {
namespace {

// What fails when it ends failed before, and was said then.
struct EventEnd {
  void operator()(CUevent_st* event) const { (void)cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, EventEnd>;

Event make_event() {
  cudaEvent_t event = nullptr;
  TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return Event(event);
}

/// The context's side stream, which branches off its stream by an event for each piece.
class CudaSideQueue final : public SideQueue {
 public:
  CudaSideQueue(CudaContext& context, std::size_t pieces) : context_(context) {
    context.activate();
    stream_ = context.side_stream();
    fork_ = make_event();
    done_.reserve(pieces);
    for (std::size_t i = 0; i < pieces; ++i) done_.push_back(make_event());
  }

  void run(std::size_t piece, std::function<void()> work) override {
    TANDEM_CUDA_CHECK(cudaEventRecord(fork_.get(), context_.stream()));
    TANDEM_CUDA_CHECK(cudaStreamWaitEvent(stream_, fork_.get()));
    {
      const CudaStreamScope aside(context_, stream_);
      work();
    }
    TANDEM_CUDA_CHECK(cudaEventRecord(done_[piece].get(), stream_));
  }

  void wait(std::size_t piece) override {
    TANDEM_CUDA_CHECK(cudaStreamWaitEvent(context_.stream(), done_[piece].get()));
  }

  std::size_t cache_bytes() const override { return context_.device().l2_bytes; }

 private:
  CudaContext& context_;
  cudaStream_t stream_ = nullptr;
  Event fork_;
  std::vector<Event> done_;  // by piece
};

}  // namespace

std::unique_ptr<SideQueue> make_side_queue(CudaContext& context, std::size_t pieces) {
  return std::make_unique<CudaSideQueue>(context, pieces);
}

}  // namespace tandem
