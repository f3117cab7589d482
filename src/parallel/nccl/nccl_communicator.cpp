#include "parallel/nccl/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <functional>

#include "base/error.h"
#include "base/last_words.h"
#include "device/cuda_context.h"
#include "device/device_buffer.h"
#include "parallel/bf16_sum.h"
#include "parallel/cuda_event_pool.h"
#include "parallel/nccl/let_others_notice.h"
#include "parallel/nccl/nccl_check.h"
#include "parallel/nccl/nccl_group.h"
#include "parallel/operation_marks.h"
#include "parallel/placement/device_choice.h"
#include "parallel/priority_stream.h"
#include "parallel/stream_request.h"

namespace tandem {
namespace {

ncclDataType_t nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return ncclFloat32;
    case DType::f16:
      return ncclFloat16;
    case DType::bf16:
      return ncclBfloat16;
    case DType::u8:
      return ncclUint8;
    case DType::i32:
      return ncclInt32;
    case DType::i64:
      return ncclInt64;
  }
  throw Error("an element type that NCCL lacks");
}

ncclRedOp_t nccl_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return ncclSum;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::min:
      return ncclMin;
  }
  throw Error("a reduction that NCCL lacks");
}

std::size_t count_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.elements()); }

}  // namespace

struct NcclCommunicator::Handle {
  Handle(Communicator& host, CudaContext& device, const DeviceLinkOptions& options)
      : context(device),
        barrier_word(DeviceBuffer::zeroed(device, sizeof(std::int32_t))),
        group(host, options) {}

  /// What the context's stream was given so far comes before what the communication stream is given
  /// from here on.
  void branch() { events.order(context.stream(), communication.get()); }

  /// Enqueues sends and receives that go on together, `transfers()`, each of which returns NCCL's
  /// result, as one operation.
  template <typename Transfers>
  void run_group(const char* operation, cudaStream_t stream, const Transfers& transfers,
                 std::string_view label = {}) {
    context.activate();
    const auto call = [&](ncclComm_t comm) {
      const ncclResult_t begun = ncclGroupStart();
      if (begun != ncclSuccess) return begun;
      const ncclResult_t added = transfers(comm, stream);
      // Ends the group in any case; what failed in it ends it with that failure.
      const ncclResult_t ended = ncclGroupEnd();
      return added == ncclSuccess || added == ncclInProgress ? ended : added;
    };
    group.run(operation, call, label);
  }
  template <typename Transfers>
  void run_group(const char* operation, const Transfers& transfers) {
    run_group(operation, context.stream(), transfers);
  }
  /// Enqueues `call(comm, stream)` on the context's stream.
  template <typename Call>
  void run(const char* operation, const Call& call) {
    context.activate();
    group.run(operation, [&](ncclComm_t comm) { return call(comm, context.stream()); });
  }

  void give_up_after(std::chrono::milliseconds moment) {
    const LastWordsHeld held;
    if (!group.given_up()) let_others_notice(moment);
    group.give_up();
  }

  CudaContext& context;
  PriorityStream communication;
  CudaEventPool events;
  OperationMarks marks;
  DeviceBuffer barrier_word;  // one, for barriers
  NcclGroup group;  // last, so that it ends first: freeing memory waits for what hangs in it
};

NcclCommunicator::NcclCommunicator(Communicator& host, CudaContext& context,
                                   const DeviceLinkOptions& options)
    : host_(host) {
  TANDEM_CHECK(host.is_host(), "NCCL starts from a communicator over host memory, not '{}'",
               host.name());
  check_one_rank_per_device(RankTopology::gather(host, this_place(context.device().uuid)));
  context.activate();
  handle_ = std::make_unique<Handle>(host, context, options);
  host.count_operations([this] { return operations_begun(); });
}

NcclCommunicator::~NcclCommunicator() { host_.count_operations({}); }

std::uint32_t NcclCommunicator::operations_begun() const { return handle_->marks.begun(); }

void NcclCommunicator::check(const std::function<std::string()>& what) {
  handle_->group.check(what);
}

void NcclCommunicator::give_up() noexcept { handle_->group.give_up(); }

void NcclCommunicator::do_wait_until(const std::function<bool()>& done,
                                     const std::function<std::string()>& what, Awaited awaited) {
  const auto described = [&] {
    const std::string last = awaited == Awaited::ranks ? handle_->marks.last() : "";
    return last.empty() ? what() : fmt::format("{}, last in {},", what(), last);
  };
  const auto checked = [&] {
    if (done()) return true;
    handle_->group.check(std::cref(described));
    return false;
  };
  try {
    // By reference, or std::function would allocate for what the lambdas capture, in every step.
    host_.wait_until(std::cref(checked), std::cref(described), awaited);
  } catch (const CommunicationTimeout&) {
    handle_->give_up_after(notice_of_timeout);
    throw;
  } catch (...) {
    handle_->give_up_after(notice_of_error);
    throw;
  }
}

void NcclCommunicator::do_send(const Tensor& tensor, int to) {
  if (tensor.elements() == 0) return;
  handle_->run("send", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclSend(tensor.raw(), count_of(tensor), nccl_type(tensor.dtype()), to, comm, stream);
  });
}

void NcclCommunicator::do_recv(const Tensor& tensor, int from) {
  if (tensor.elements() == 0) return;
  handle_->run("recv", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclRecv(tensor.raw(), count_of(tensor), nccl_type(tensor.dtype()), from, comm, stream);
  });
}

void NcclCommunicator::do_broadcast(const Tensor& tensor, int root) {
  if (tensor.elements() == 0) return;
  handle_->run("broadcast", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclBroadcast(tensor.raw(), tensor.raw(), count_of(tensor), nccl_type(tensor.dtype()),
                         root, comm, stream);
  });
}

void NcclCommunicator::do_all_reduce(const Tensor& tensor, ReduceOp op) {
  if (tensor.elements() == 0) return;
  handle_->run("all_reduce", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(tensor.raw(), tensor.raw(), count_of(tensor), nccl_type(tensor.dtype()),
                         nccl_op(op), comm, stream);
  });
}

std::unique_ptr<Request> NcclCommunicator::do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                                               std::string_view label) {
  Handle& h = *handle_;
  h.context.activate();
  h.branch();
  const cudaStream_t stream = h.communication.get();
  if (tensor.elements() > 0) {
    h.marks.enqueue(stream, label, tensor.elements());
    const auto reduce = [&](ncclComm_t comm) {
      return ncclAllReduce(tensor.raw(), tensor.raw(), count_of(tensor), nccl_type(tensor.dtype()),
                           nccl_op(op), comm, stream);
    };
    h.group.run("all_reduce_async", reduce, label);
  }
  return std::make_unique<StreamRequest>(h.events, stream, h.context);
}

void NcclCommunicator::do_reduce(const Tensor& tensor, ReduceOp op, int root) {
  if (tensor.elements() == 0) return;
  void* result = rank() == root ? tensor.raw() : nullptr;
  handle_->run("reduce", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduce(tensor.raw(), result, count_of(tensor), nccl_type(tensor.dtype()),
                      nccl_op(op), root, comm, stream);
  });
}

void NcclCommunicator::do_all_gather(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  handle_->run("all_gather", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllGather(input.raw(), output.raw(), count_of(input), nccl_type(input.dtype()), comm,
                         stream);
  });
}

void NcclCommunicator::do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) {
  if (output.elements() == 0) return;
  handle_->run("reduce_scatter", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclReduceScatter(input.raw(), output.raw(), count_of(output), nccl_type(input.dtype()),
                             nccl_op(op), comm, stream);
  });
}

void NcclCommunicator::do_barrier() {
  handle_->run("barrier", [&](ncclComm_t comm, cudaStream_t stream) {
    void* word = handle_->barrier_word.data();
    return ncclAllReduce(word, word, 1, ncclInt32, ncclMax, comm, stream);
  });
}

void NcclCommunicator::do_sum_doubles(double* values, std::int64_t count) {
  if (count == 0) return;
  handle_->run("sum_doubles", [&](ncclComm_t comm, cudaStream_t stream) {
    return ncclAllReduce(values, values, static_cast<std::size_t>(count), ncclFloat64, ncclSum,
                         comm, stream);
  });
}

namespace {

/// Blocks of one size that lie one after the other.
struct Blocks {
  Blocks(const Tensor& tensor, std::int64_t elements)
      : data(static_cast<std::byte*>(tensor.raw())),
        count(static_cast<std::size_t>(elements)),
        type(nccl_type(tensor.dtype())),
        bytes(count * size_of(tensor.dtype())) {}

  ncclResult_t send(int block, int to, ncclComm_t comm, cudaStream_t stream) const {
    return ncclSend(data + static_cast<std::size_t>(block) * bytes, count, type, to, comm, stream);
  }
  ncclResult_t recv(int block, int from, ncclComm_t comm, cudaStream_t stream) const {
    return ncclRecv(data + static_cast<std::size_t>(block) * bytes, count, type, from, comm,
                    stream);
  }

  std::byte* data;
  std::size_t count;
  ncclDataType_t type;
  std::size_t bytes;
};

bool added(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace

void NcclCommunicator::do_gather(const Tensor& input, const Tensor& output, int root) {
  if (input.elements() == 0) return;
  handle_->run_group("gather", [&](ncclComm_t comm, cudaStream_t stream) {
    ncclResult_t result = Blocks(input, input.elements()).send(0, root, comm, stream);
    if (rank() != root) return result;
    const Blocks blocks(output, input.elements());
    for (int from = 0; from < size() && added(result); ++from) {
      result = blocks.recv(from, from, comm, stream);
    }
    return result;
  });
}

void NcclCommunicator::do_scatter(const Tensor& input, const Tensor& output, int root) {
  if (output.elements() == 0) return;
  handle_->run_group("scatter", [&](ncclComm_t comm, cudaStream_t stream) {
    ncclResult_t result = Blocks(output, output.elements()).recv(0, root, comm, stream);
    if (rank() != root) return result;
    const Blocks blocks(input, output.elements());
    for (int to = 0; to < size() && added(result); ++to) {
      result = blocks.send(to, to, comm, stream);
    }
    return result;
  });
}

void NcclCommunicator::do_all_to_all(const Tensor& input, const Tensor& output) {
  if (input.elements() == 0) return;
  handle_->run_group("all_to_all", [&](ncclComm_t comm, cudaStream_t stream) {
    const Blocks out(input, input.elements() / size());
    const Blocks in(output, input.elements() / size());
    ncclResult_t result = ncclSuccess;
    for (int peer = 0; peer < size() && added(result); ++peer) {
      result = out.send(peer, peer, comm, stream);
      if (added(result)) result = in.recv(peer, peer, comm, stream);
    }
    return result;
  });
}

std::unique_ptr<Request> NcclCommunicator::do_all_reduce_bf16_async(const Tensor& tensor,
                                                                    const Tensor& scratch,
                                                                    std::string_view label) {
  constexpr const char* operation = "all_reduce_bf16_async";
  Handle& h = *handle_;
  h.context.activate();
  h.branch();
  const cudaStream_t stream = h.communication.get();
  if (tensor.elements() > 0) {
    const Bf16SumLayout layout(tensor.elements(), size());
    auto* packed = static_cast<std::uint16_t*>(scratch.raw());
    std::uint16_t* received = packed + layout.padded();
    std::uint16_t* own = packed + rank() * layout.shard;
    h.marks.enqueue(stream, label, tensor.elements());
    pack_bf16(stream, layout, tensor.data<float>(), packed);
    const auto exchange = [&](ncclComm_t comm, cudaStream_t) {
      const Blocks out(Tensor(packed, {layout.padded()}, DType::bf16), layout.shard);
      const Blocks in(Tensor(received, {layout.padded()}, DType::bf16), layout.shard);
      ncclResult_t result = ncclSuccess;
      for (int step = 1; step < size() && added(result); ++step) {
        const int to = (rank() + step) % size();
        const int from = (rank() - step + size()) % size();
        result = out.send(to, to, comm, stream);
        if (added(result)) result = in.recv(from, from, comm, stream);
      }
      return result;
    };
    h.run_group(operation, stream, exchange, label);
    sum_bf16(stream, layout, rank(), received, own);
    const auto collect = [&](ncclComm_t comm) {
      return ncclAllGather(own, packed, static_cast<std::size_t>(layout.shard), ncclBfloat16, comm,
                           stream);
    };
    h.group.run(operation, collect, label);
    unpack_bf16(stream, layout, packed, tensor.data<float>());
  }
  return std::make_unique<StreamRequest>(h.events, stream, h.context);
}

}  // namespace tandem
