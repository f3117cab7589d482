#include "parallel/colocated/colocated_cuda.h"

#include <chrono>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "base/last_words.h"
#include "device/memory_kernels.h"
#include "parallel/bf16_sum.h"
#include "parallel/colocated/colocated_handle.h"
#include "parallel/device_timeout.h"
#include "parallel/nccl/let_others_notice.h"
#include "parallel/stream_request.h"
#include "parallel/stream_watch.h"

namespace tandem {
namespace {

Combination in_place(const Tensor& tensor, ReduceOp op) {
  return {tensor.raw(), tensor.raw(), tensor.elements(), combined_type(tensor.dtype()), op};
}

/// By an all-reduce of elements of that type.
LeadersExchange all_reduce_of(DType dtype, ReduceOp op) {
  return [dtype, op](NcclCommunicator& leaders, void* data, std::int64_t count) {
    leaders.all_reduce(Tensor(data, {count}, dtype), op);
  };
}

}  // namespace

ColocatedCudaCommunicator::ColocatedCudaCommunicator(Communicator& host, CudaContext& context,
                                                     const RankTopology& topology,
                                                     const GpuSharing& sharing,
                                                     const DeviceLinkOptions& options)
    : host_(host),
      devices_(topology.devices()),
      sum_cost_(sharing.time_sliced ? SumCost::each_slow : SumCost::usual),
      exceptions_(std::uncaught_exceptions()) {
  TANDEM_CHECK(host.is_host(), "ranks of a GPU meet in a communicator over host memory, not '{}'",
               host.name());
  context.activate();
  handle_ = std::make_unique<Handle>(host, context, topology, sharing.kernels_wait, options);
  host.count_operations([this] { return handle_->marks.begun(); });
}

ColocatedCudaCommunicator::~ColocatedCudaCommunicator() {
  if (std::uncaught_exceptions() > exceptions_) give_up();
  if (!given_up_) close();
  host_.count_operations({});
  if (!given_up_) return;
  if (handle_->peers) handle_->peers->leave();
  handle_->group.leave();
}

void ColocatedCudaCommunicator::close() noexcept {
  bool drained = false;
  try {
    wait_for_device(*this, handle_->context, "the end of the ranks of a GPU");
    drained = true;
    handle_->leaders.reset();
    if (handle_->peers) handle_->peers->unmap();
    handle_->group.unmap();
  } catch (const Error& error) {
    tell_at_the_end(error);
    if (!drained) return give_up();
    given_up_ = true;  // nothing waits on the device, which may have nothing mapped any longer
  }
}

void ColocatedCudaCommunicator::give_up() noexcept {
  if (given_up_) return;
  given_up_ = true;
  Handle& h = *handle_;
  if (h.leaders) h.leaders->give_up();
  if (h.peers) h.peers->barrier().give_up([&h] { return h.drained(); });
  h.group.barrier().give_up([&h] { return h.drained(); });
}

ColocatedCudaCommunicator::Handle& ColocatedCudaCommunicator::begin() {
  TANDEM_CHECK(!given_up_, "the ranks that share a GPU were given up after an error");
  handle_->context.activate();
  return *handle_;
}

void ColocatedCudaCommunicator::do_wait_until(const std::function<bool()>& done,
                                              const std::function<std::string()>& what,
                                              Awaited awaited) {
  Handle& h = begin();
  const auto described = [&] {
    const std::string last = awaited == Awaited::ranks ? h.marks.last() : "";
    return last.empty() ? what() : fmt::format("{}, last in {},", what(), last);
  };
  const auto checked = [&] {
    const bool is_done = done();
    // Where another process of the GPU gave up, barriers were passed that not all had reached. It
    // ends the job, or this wait takes too long; meanwhile this process's device has no work.
    const bool given_up =
        h.group.barrier().given_up() || (h.peers && h.peers->barrier().given_up());
    if (given_up && awaited == Awaited::ranks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return false;
    }
    if (!is_done && h.leaders) h.leaders->check(std::cref(described));
    return is_done;
  };
  const auto give_up_after = [&](std::chrono::milliseconds moment) {
    // Whoever gives up lets its GPU's ranks go on, the leader among them, and with it NCCL.
    if (devices_ > 1) let_others_notice(moment);
    give_up();
  };
  try {
    // By reference, or std::function would allocate for what the lambdas capture, in every step.
    host_.wait_until(std::cref(checked), std::cref(described), awaited);
  } catch (const CommunicationTimeout& error) {
    const LastWordsHeld held;
    std::vector<int> late = error.behind();
    // Before those that wait are let go. Of several GPUs a leader that waits for the others' would
    // be taken for late.
    if (late.empty() && error.ranks().empty() && devices_ == 1) late = h.group.late_ranks();
    give_up_after(notice_of_timeout);
    if (late.empty()) throw;
    throw device_timeout(error, late);
  } catch (...) {
    const LastWordsHeld held;
    give_up_after(notice_of_error);
    throw;
  }
}

SharedDevice* ColocatedCudaCommunicator::shared_device() { return handle_.get(); }

std::int64_t ColocatedCudaCommunicator::bf16_scratch(std::int64_t elements) const {
  const Handle& h = *handle_;
  if (h.leaders) return h.leaders->bf16_scratch(elements);
  // Where all ranks exchange, all have to know whether that is done as bf16.
  return h.peers ? Bf16SumLayout(elements, devices_).scratch_elements() : 0;
}

Tensor ColocatedCudaCommunicator::do_attach(const Tensor& arena) {
  if (!shares(arena)) return arena;
  Handle& h = begin();
  const AttachedArena& attached = h.group.attach(arena.data<float>(), arena.elements());
  if (h.peers) h.peers->attach(attached.sums, arena.elements());
  return {attached.sums, arena.shape(), DType::f32};
}

std::size_t ColocatedCudaCommunicator::attached_bytes(std::int64_t elements) const {
  if (size() == 1) return 0;
  return static_cast<std::size_t>(elements) * sizeof(float) /
         static_cast<std::size_t>(handle_->group.members());
}

void ColocatedCudaCommunicator::do_detach(const Tensor& arena) {
  if (!shares(arena) || given_up_) return;
  if (std::uncaught_exceptions() > exceptions_) {
    // The other ranks do not come, and the arena cannot be freed while the device waits for them.
    return give_up();
  }
  wait_for_device(*this, handle_->context, "the last sums of gradients");
  Handle& h = *handle_;
  if (h.peers) h.peers->detach(h.group.attached(arena).sums);
  h.group.detach(arena.data<float>());
}

std::unique_ptr<Request> ColocatedCudaCommunicator::do_sum_attached_async(const Tensor& slice,
                                                                          std::string_view label,
                                                                          const Tensor& scratch) {
  Handle& h = begin();
  cudaStream_t stream = nullptr;
  if (shares(slice)) {
    const AttachedArena& attached = h.group.attached(slice);
    const std::int64_t first = slice.data<float>() - attached.arena;
    stream = h.sum(attached, {first, first + slice.elements()}, scratch, label);
  } else {
    stream = h.sums_lane().stream;
  }
  return std::make_unique<StreamRequest>(h.events, stream, h.context);
}

void ColocatedCudaCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  Handle& h = begin();
  h.combine_all(h.context_lane(), in_place(tensor, op), all_reduce_of(tensor.dtype(), op));
}

void ColocatedCudaCommunicator::do_reduce(const Tensor& tensor, ReduceOp op, int root) {
  Handle& h = begin();
  Combination combination = in_place(tensor, op);
  if (root != rank()) combination.output = nullptr;
  h.combine_all(h.context_lane(), combination, all_reduce_of(tensor.dtype(), op));
}

void ColocatedCudaCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output,
                                                  ReduceOp op) {
  Handle& h = begin();
  const auto* blocks = static_cast<const std::byte*>(input.raw());
  for (int to = 0; to < size(); ++to) {
    const Combination combination{.input = blocks + output.bytes() * static_cast<std::size_t>(to),
                                  .output = to == rank() ? output.raw() : nullptr,
                                  .count = output.elements(),
                                  .type = combined_type(input.dtype()),
                                  .op = op};
    h.combine_all(h.context_lane(), combination, all_reduce_of(input.dtype(), op));
  }
}

std::unique_ptr<Request> ColocatedCudaCommunicator::do_all_reduce_async(const Tensor& tensor,
                                                                        ReduceOp op,
                                                                        std::string_view label) {
  Handle& h = begin();
  const Lane lane = h.sums_lane();
  h.combine_all(lane, in_place(tensor, op), all_reduce_of(tensor.dtype(), op),
                h.marks.mark(label, tensor.elements()));
  return std::make_unique<StreamRequest>(h.events, lane.stream, h.context);
}

std::unique_ptr<Request> ColocatedCudaCommunicator::do_all_reduce_bf16_async(
    const Tensor& tensor, const Tensor& scratch, std::string_view label) {
  Handle& h = begin();
  const Lane lane = h.sums_lane();
  const auto exchange = [&](NcclCommunicator& leaders, void* data, std::int64_t count) {
    leaders.all_reduce_bf16_async(Tensor(data, {count}), scratch, label)->wait();
  };
  h.combine_all(lane, in_place(tensor, ReduceOp::sum), exchange,
                h.marks.mark(label, tensor.elements()));
  return std::make_unique<StreamRequest>(h.events, lane.stream, h.context);
}

void ColocatedCudaCommunicator::do_sum_doubles(double* values, std::int64_t count) {
  Handle& h = begin();
  const auto exchange = [](NcclCommunicator& leaders, void* data, std::int64_t n) {
    leaders.sum_doubles(static_cast<double*>(data), n);
  };
  h.combine_all(h.context_lane(), {values, values, count, CombinedType::f64, ReduceOp::sum},
                exchange);
}

void ColocatedCudaCommunicator::do_barrier() { begin().order_all(); }

namespace {

/// A device tensor's double in host memory.
class HostDouble {
 public:
  /// With the tensor's values; of a tensor that is not there, nothing.
  HostDouble(Communicator& ranks, CudaContext& context, const Tensor& tensor)
      : context_(context), tensor_(tensor), values_(tensor.defined() ? tensor.bytes() : 0) {
    // What is under way may wait for other ranks.
    wait_for_device(ranks, context, "a tensor on its way to the host");
    if (!values_.empty()) copy_to_host(context, tensor.raw(), values_.size(), values_.data());
  }

  Tensor tensor() {
    const bool there = tensor_.defined() || tensor_.elements() == 0;
    return there ? Tensor(values_.data(), tensor_.shape(), tensor_.dtype()) : Tensor();
  }
  void bring_back() {
    if (!values_.empty()) {
      copy_to_device(context_, values_.data(), values_.size(), tensor_.raw());
    }
  }

 private:
  CudaContext& context_;
  Tensor tensor_;
  std::vector<std::byte> values_;
};

}  // namespace

void ColocatedCudaCommunicator::do_send(const Tensor& tensor, int to) {
  host_.send(HostDouble(*this, begin().context, tensor).tensor(), to);
}

void ColocatedCudaCommunicator::do_recv(const Tensor& tensor, int from) {
  HostDouble values(*this, begin().context, tensor);
  host_.recv(values.tensor(), from);
  values.bring_back();
}

void ColocatedCudaCommunicator::do_broadcast(const Tensor& tensor, int root) {
  HostDouble values(*this, begin().context, tensor);
  host_.broadcast(values.tensor(), root);
  values.bring_back();
}

void ColocatedCudaCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  HostDouble in(*this, begin().context, input);
  HostDouble out(*this, handle_->context, output);
  host_.all_gather(in.tensor(), out.tensor());
  out.bring_back();
}

void ColocatedCudaCommunicator::do_gather(const Tensor& input, const Tensor& output, int root) {
  HostDouble in(*this, begin().context, input);
  HostDouble out(*this, handle_->context, rank() == root ? output : Tensor());
  host_.gather(in.tensor(), out.tensor(), root);
  out.bring_back();
}

void ColocatedCudaCommunicator::do_scatter(const Tensor& input, const Tensor& output, int root) {
  HostDouble in(*this, begin().context, rank() == root ? input : Tensor());
  HostDouble out(*this, handle_->context, output);
  host_.scatter(in.tensor(), out.tensor(), root);
  out.bring_back();
}

void ColocatedCudaCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  HostDouble in(*this, begin().context, input);
  HostDouble out(*this, handle_->context, output);
  host_.all_to_all(in.tensor(), out.tensor());
  out.bring_back();
}

}  // namespace tandem
