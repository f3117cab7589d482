#include "parallel/colocated/colocated_handle.h"

#include <algorithm>

#include "device/cuda_check.h"
#include "parallel/direct/direct_sum.h"

namespace tandem {
namespace {

const std::byte* at(const void* data, std::int64_t bytes) {
  return static_cast<const std::byte*>(data) + bytes;
}
std::byte* at(void* data, std::int64_t bytes) { return static_cast<std::byte*>(data) + bytes; }

MemberMemory only(const void* memory) {
  MemberMemory one;
  one.of[0] = memory;
  return one;
}

/// Up to where leaders exchange the sums of a range while the processes still sum the rest: a
/// quarter of it, which takes them about as long as it takes to sum three, or all of a small one.
std::int64_t exchange_cut(const ArenaRange& range) {
  constexpr std::int64_t small = std::int64_t{1} << 20;
  return range.elements() < small ? range.end : share_of(range, 4, 0).end;
}

bool is_drained(cudaStream_t stream) {
  const bool drained = cudaStreamQuery(stream) != cudaErrorNotReady;
  (void)cudaGetLastError();  // an answer, or an error that was said
  return drained;
}

}  // namespace

ColocatedCudaCommunicator::Handle::Handle(Communicator& host, CudaContext& device,
                                          const RankTopology& topology, bool kernels_wait,
                                          const DeviceLinkOptions& options)
    : context(device),
      several_devices(topology.devices() > 1),
      group(host, device, topology.ranks_on_device(topology.device_of(host.rank())),
            kernels_wait ? DeviceOrder::kernels : DeviceOrder::flags) {
  if (!several_devices) return;
  TANDEM_CHECK(options.exchange != ExchangeKind::automatic, "how GPUs exchange is not decided");
  split = host.split(group.leads() ? 0 : 1);
  if (group.leads()) leaders = std::make_unique<NcclCommunicator>(*split, device, options);
  if (options.exchange == ExchangeKind::direct) {
    peers = std::make_unique<PeerGroup>(host, device, PeerOwners::leaders(topology));
  }
}

void ColocatedCudaCommunicator::Handle::wait_for_each_other() {
  barrier(context_lane());
  end_operation(context_lane());
}

Lane ColocatedCudaCommunicator::Handle::sums_lane() {
  events.order(context.stream(), sums.get());
  return {sums.get(), on_sums};
}

template <typename Exchange>
void ColocatedCudaCommunicator::Handle::between_leaders(cudaStream_t stream,
                                                        const Exchange& exchange) {
  if (!leaders) return;
  const CudaStreamScope scope(context, stream);
  exchange(*leaders);
}

void ColocatedCudaCommunicator::Handle::combine_all(const Lane& lane,
                                                    const Combination& combination,
                                                    const LeadersExchange& exchange,
                                                    OperationMark mark) {
  const CombinedType type = combination.type;
  const ReduceOp op = combination.op;
  const MemberMemory& slots = group.slots(lane.channel);
  const std::int64_t most = DeviceGroup::slot_bytes / bytes_of(type);
  for (std::int64_t done = 0; done < combination.count; done += most) {
    const std::int64_t count = std::min(most, combination.count - done);
    const std::int64_t offset = done * bytes_of(type);
    void* output = combination.output == nullptr ? nullptr : at(combination.output, offset);
    combine(lane.stream, only(at(combination.input, offset)), 1, type, op, count,
            group.slot(member(), lane.channel));
    barrier(lane, mark);  // every slot is filled
    if (several_devices) {
      void* result = group.slot(0, lane.channel);
      between_leaders(lane.stream, [&](NcclCommunicator& link) {
        combine(lane.stream, slots, members(), type, op, count, result);
        exchange(link, result, count);
      });
      barrier(lane);  // the leader's slot holds the result
      if (output != nullptr) combine(lane.stream, only(result), 1, type, op, count, output);
    } else if (output != nullptr) {
      combine(lane.stream, slots, members(), type, op, count, output);
    }
    barrier(lane);  // the slots have been read
    end_operation(lane);
    mark = {};
  }
}

void ColocatedCudaCommunicator::Handle::sum_part(const Lane& lane, const AttachedArena& attached,
                                                 const ArenaRange& part) {
  sum_share(lane.stream, attached.arenas, members(), share_of(part, members(), member()),
            attached.sums);
}

void ColocatedCudaCommunicator::Handle::exchange_part(const Lane& lane,
                                                      const AttachedArena& attached,
                                                      const ArenaRange& part, const Tensor& scratch,
                                                      std::string_view label) {
  const Tensor part_sums(attached.sums + part.begin, {part.elements()});
  between_leaders(lane.stream, [&](NcclCommunicator& link) {
    if (scratch.defined()) {
      link.all_reduce_bf16_async(part_sums, scratch, label)->wait();
    } else {
      link.all_reduce(part_sums, ReduceOp::sum);
    }
  });
}

void ColocatedCudaCommunicator::Handle::exchange_directly(const Lane& lane,
                                                          const AttachedArena& attached,
                                                          const ArenaRange& part) {
  const PeerArena& of_gpus = peers->attached(Tensor(attached.sums + part.begin, {part.elements()}));
  const ArenaRange own = share_of(share_of(part, peers->gpus(), peers->gpu()), members(), member());
  peers->barrier().enqueue(lane.stream, lane.channel);  // each GPU's part is summed
  sum_directly(lane.stream, of_gpus.arenas, own, members());
  peers->barrier().enqueue(lane.stream, lane.channel);  // every GPU has the sums of all
}

cudaStream_t ColocatedCudaCommunicator::Handle::sum(const AttachedArena& attached,
                                                    const ArenaRange& range, const Tensor& scratch,
                                                    std::string_view label) {
  const Lane lane = sums_lane();
  const Lane exchange{exchanges.get(), on_exchange};
  // Every process has done its backward up to this range, and read the sums of the step before.
  barrier(lane, marks.mark(label, range.elements()));
  const std::int64_t cut = several_devices ? exchange_cut(range) : range.end;
  const bool directly = peers && !scratch.defined();
  for (const ArenaRange& part : {ArenaRange{range.begin, cut}, ArenaRange{cut, range.end}}) {
    if (part.elements() == 0) continue;
    sum_part(lane, attached, part);
    if (!directly) barrier(lane);  // every share is summed
    if (!several_devices) continue;
    events.order(lane.stream, exchange.stream);
    if (directly) {
      exchange_directly(exchange, attached, part);
    } else {
      exchange_part(exchange, attached, part, scratch, label);
    }
  }
  end_operation(lane);
  if (!several_devices) return lane.stream;
  // What the lane still has to do belongs to the operation too: a captured graph ends with it.
  events.order(lane.stream, exchange.stream);
  if (directly) return exchange.stream;
  barrier(exchange);  // the leader's sums are those of all ranks
  end_operation(exchange);
  return exchange.stream;
}

void ColocatedCudaCommunicator::Handle::order_all() {
  const Lane lane = context_lane();
  barrier(lane);
  if (several_devices) {
    between_leaders(lane.stream, [](NcclCommunicator& link) { link.barrier(); });
    barrier(lane);
  }
  end_operation(lane);
}

bool ColocatedCudaCommunicator::Handle::drained() const {
  return is_drained(context.stream()) && is_drained(sums.get()) && is_drained(exchanges.get());
}

}  // namespace tandem
