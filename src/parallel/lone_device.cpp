#include "parallel/lone_device.h"

#include "device/cuda_context.h"
#include "parallel/cuda_event_pool.h"
#include "parallel/priority_stream.h"
#include "parallel/stream_request.h"

namespace tandem {

struct LoneDeviceCommunicator::Handle final : PeerDevices {
  explicit Handle(CudaContext& device) : context(device) {}

  int members() const override { return 1; }
  int member() const override { return 0; }
  std::vector<float*> arenas(const Tensor& arena) const override { return {arena.data<float>()}; }
  void sum_share(const Tensor& /*slice*/, std::string_view /*label*/,
                 const std::function<void()>& update) override {
    events.order(context.stream(), updates.get());
    const CudaStreamScope scope(context, updates.get());
    update();
  }
  std::unique_ptr<Request> finish_shares() override {
    return std::make_unique<StreamRequest>(events, updates.get(), context);
  }

  CudaContext& context;
  // Nothing waits for an update before backward is done.
  PriorityStream updates{StreamPriority::usual};
  CudaEventPool events;
};

LoneDeviceCommunicator::LoneDeviceCommunicator(CudaContext& context) {
  context.activate();
  handle_ = std::make_unique<Handle>(context);
}

LoneDeviceCommunicator::~LoneDeviceCommunicator() = default;

PeerDevices* LoneDeviceCommunicator::peer_devices() { return handle_.get(); }

}  // namespace tandem
