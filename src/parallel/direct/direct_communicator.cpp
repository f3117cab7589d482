#include "parallel/direct/direct_communicator.h"

#include <chrono>
#include <exception>
#include <functional>
#include <thread>

#include "base/last_words.h"
#include "device/cuda_context.h"
#include "parallel/cuda_event_pool.h"
#include "parallel/device_timeout.h"
#include "parallel/direct/direct_sum.h"
#include "parallel/direct/peer_group.h"
#include "parallel/operation_marks.h"
#include "parallel/priority_stream.h"
#include "parallel/stream_request.h"
#include "parallel/stream_watch.h"

namespace tandem {

struct DirectCommunicator::Handle final : PeerDevices {
  Handle(DirectCommunicator& self, Communicator& host, CudaContext& device)
      : communicator(self), context(device), group(host, device, PeerOwners::each(host)) {}

  /// Enqueues a sum, on `sums`, behind what the context's stream was given so far. The ranks wait
  /// for each other's gradients on one stream, and sum on another: so they arrive for the next
  /// slice while they sum this one. `only`: as sum_directly() takes it.
  void sum(const Tensor& slice, std::string_view label, int only) {
    const PeerArena& attached = group.attached(slice);
    const std::int64_t first =
        slice.data<float>() - attached.arenas[static_cast<std::size_t>(group.gpu())];
    const ArenaRange range{first, first + slice.elements()};
    events.order(context.stream(), arrivals.get());
    group.barrier().enqueue(arrivals.get(), on_arrivals, marks.mark(label, slice.elements()));
    events.order(arrivals.get(), sums.get());
    sum_directly(sums.get(), attached.arenas, share_of(range, group.gpus(), group.gpu()), 1, only);
  }
  /// What all ranks have on `sums` so far.
  std::unique_ptr<Request> end_sums() {
    group.barrier().enqueue(sums.get(), on_sums);
    return std::make_unique<StreamRequest>(events, sums.get(), context);
  }

  int members() const override { return group.gpus(); }
  int member() const override { return group.gpu(); }
  std::vector<float*> arenas(const Tensor& arena) const override {
    return group.attached(arena).arenas;
  }
  void sum_share(const Tensor& slice, std::string_view label,
                 const std::function<void()>& update) override {
    communicator.begin();
    sum(slice, label, group.gpu());
    const CudaStreamScope scope(context, sums.get());
    update();
  }
  std::unique_ptr<Request> finish_shares() override {
    communicator.begin();
    return end_sums();
  }
  void wait_for_context(std::string_view what) override {
    communicator.begin();
    wait_for_device(communicator, context, what);
  }

  static constexpr int on_arrivals = 0;
  static constexpr int on_sums = 1;
  static_assert(on_sums < DeviceBarrier::channels);

  DirectCommunicator& communicator;
  CudaContext& context;
  PriorityStream arrivals;
  PriorityStream sums;
  CudaEventPool events;
  OperationMarks marks;
  PeerGroup group;
};

DirectCommunicator::DirectCommunicator(Communicator& host, CudaContext& context,
                                       const DeviceLinkOptions& options)
    : host_(host), exceptions_(std::uncaught_exceptions()), nccl_(host, context, options) {
  context.activate();
  handle_ = std::make_unique<Handle>(*this, host, context);
  host.count_operations([this] { return handle_->marks.begun() + nccl_.operations_begun(); });
}

DirectCommunicator::~DirectCommunicator() {
  if (std::uncaught_exceptions() > exceptions_) give_up();
  if (!given_up_) close();
  host_.count_operations({});
  if (given_up_) handle_->group.leave();
}

void DirectCommunicator::close() noexcept {
  bool drained = false;
  try {
    wait_for_device(*this, handle_->context, "the end of the exchange between GPUs");
    drained = true;
    handle_->group.unmap();
  } catch (const Error& error) {
    tell_at_the_end(error);
    if (!drained) return give_up();
    given_up_ = true;  // nothing waits on the device, which may have nothing mapped any longer
    nccl_.give_up();
  }
}

void DirectCommunicator::give_up() noexcept {
  if (given_up_) return;
  given_up_ = true;
  nccl_.give_up();
  handle_->group.barrier().give_up([] { return true; });
  handle_->group.leave();
}

DirectCommunicator::Handle& DirectCommunicator::begin() {
  TANDEM_CHECK(!given_up_, "the ranks that exchange directly were given up after an error");
  handle_->context.activate();
  return *handle_;
}

PeerDevices* DirectCommunicator::peer_devices() { return size() > 1 ? handle_.get() : nullptr; }

NcclCommunicator& DirectCommunicator::nccl() {
  begin();
  return nccl_;
}

void DirectCommunicator::do_wait_until(const std::function<bool()>& done,
                                       const std::function<std::string()>& what, Awaited awaited) {
  Handle& h = begin();
  const auto checked = [&] {
    const bool is_done = done();
    // Where another rank gave up, barriers were passed that not all had reached. It ends the job,
    // or this wait takes too long; meanwhile this rank's device has no work.
    if (h.group.barrier().given_up() && awaited == Awaited::ranks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return false;
    }
    return is_done;
  };
  const auto described = [&] {
    const std::string last = awaited == Awaited::ranks ? h.marks.last() : "";
    return last.empty() ? what() : fmt::format("{}, last in {}", what(), last);
  };
  try {
    // By reference, or std::function would allocate for what the lambdas capture, in every step.
    nccl_.wait_until(std::cref(checked), std::cref(described), awaited);
  } catch (const CommunicationTimeout& error) {
    const LastWordsHeld held;
    std::vector<int> late = error.behind();
    // Before those that wait are let go.
    if (late.empty() && error.ranks().empty()) late = h.group.barrier().late_members();
    give_up();
    if (late.empty()) throw;
    throw device_timeout(error, late);
  } catch (...) {
    const LastWordsHeld held;
    give_up();
    throw;
  }
}

Tensor DirectCommunicator::do_attach(const Tensor& arena) {
  if (shares(arena)) begin().group.attach(arena.data<float>(), arena.elements());
  return arena;
}

void DirectCommunicator::do_detach(const Tensor& arena) {
  if (!shares(arena) || given_up_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    // The other ranks do not come, and the arena cannot be freed while the device waits for them.
    return give_up();
  }
  wait_for_device(*this, handle_->context, "the last sums of gradients");
  handle_->group.detach(arena.data<float>());
}

std::unique_ptr<Request> DirectCommunicator::do_sum_attached_async(const Tensor& slice,
                                                                   std::string_view label,
                                                                   const Tensor& scratch) {
  Handle& h = begin();
  if (scratch.defined()) return nccl_.all_reduce_bf16_async(slice, scratch, label);
  if (!shares(slice)) {
    return std::make_unique<StreamRequest>(h.events, h.context.stream(), h.context);
  }
  h.sum(slice, label, -1);
  return h.end_sums();
}

void DirectCommunicator::do_send(const Tensor& tensor, int to) { nccl().send(tensor, to); }

void DirectCommunicator::do_recv(const Tensor& tensor, int from) { nccl().recv(tensor, from); }

void DirectCommunicator::do_broadcast(const Tensor& tensor, int root) {
  nccl().broadcast(tensor, root);
}

void DirectCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  nccl().all_reduce(tensor, op);
}

std::unique_ptr<Request> DirectCommunicator::do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                                                 std::string_view label) {
  return nccl().all_reduce_async(tensor, op, label);
}

std::unique_ptr<Request> DirectCommunicator::do_all_reduce_bf16_async(const Tensor& tensor,
                                                                      const Tensor& scratch,
                                                                      std::string_view label) {
  return nccl().all_reduce_bf16_async(tensor, scratch, label);
}

void DirectCommunicator::do_reduce(const Tensor& tensor, ReduceOp op, int root) {
  nccl().reduce(tensor, op, root);
}

void DirectCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  nccl().all_gather(input, output);
}

void DirectCommunicator::do_gather(const Tensor& input, const Tensor& output, int root) {
  nccl().gather(input, output, root);
}

void DirectCommunicator::do_scatter(const Tensor& input, const Tensor& output, int root) {
  nccl().scatter(input, output, root);
}

void DirectCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  nccl().reduce_scatter(input, output, op);
}

void DirectCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  nccl().all_to_all(input, output);
}

void DirectCommunicator::do_barrier() { nccl().barrier(); }

void DirectCommunicator::do_sum_doubles(double* values, std::int64_t count) {
  nccl().sum_doubles(values, count);
}

}  // namespace tandem
