#pragma once

// For colocated_*.cpp alone.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "device/cuda_context.h"
#include "parallel/colocated/colocated_cuda.h"
#include "parallel/colocated/device_group.h"
#include "parallel/cuda_event_pool.h"
#include "parallel/direct/peer_group.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/operation_marks.h"
#include "parallel/priority_stream.h"

namespace tandem {

/// Which barriers belong to which stream. Operations of different streams may go on at the same
/// time.
enum Channel : int {
  on_context,   // the context's stream
  on_sums,      // the stream of asynchronous operations
  on_exchange,  // the stream on which GPUs exchange sums
};
static_assert(on_exchange + 1 == DeviceBarrier::channels);

/// A stream, and its channel.
struct Lane {
  cudaStream_t stream;
  Channel channel;
};

/// What is combined element by element over all ranks.
struct Combination {
  const void* input;
  void* output;  // null: this rank does not want it
  std::int64_t count;
  CombinedType type;
  ReduceOp op;
};

/// Enqueues the combining of what each leader has at `data`, in place.
using LeadersExchange =
    std::function<void(NcclCommunicator& leaders, void* data, std::int64_t count)>;

/// What a ColocatedCudaCommunicator enqueues its operations with.
struct ColocatedCudaCommunicator::Handle final : SharedDevice {
  Handle(Communicator& host, CudaContext& device, const RankTopology& topology, bool kernels_wait,
         const DeviceLinkOptions& options);

  int members() const override { return group.members(); }
  int member() const override { return group.member(); }
  std::byte* allocate(std::size_t bytes) override { return group.allocate_common(bytes); }
  void wait_for_each_other() override;

  Lane context_lane() const { return {context.stream(), on_context}; }
  /// The lane of asynchronous operations, behind what the context's stream was given so far.
  Lane sums_lane();

  void barrier(const Lane& lane, const OperationMark& mark = {}) {
    group.barrier().enqueue(lane.stream, lane.channel, mark);
  }
  void end_operation(const Lane& lane) { group.barrier().end_operation(lane.stream, lane.channel); }

  /// Combines over all ranks, by way of the slots.
  void combine_all(const Lane& lane, const Combination& combination,
                   const LeadersExchange& exchange, OperationMark mark = {});
  /// Sums a range of an attached arena over all ranks. Returns the stream that it ends on.
  cudaStream_t sum(const AttachedArena& attached, const ArenaRange& range, const Tensor& scratch,
                   std::string_view label);
  /// Orders the context's streams of all ranks.
  void order_all();

  /// Whether this process's streams have no work left, or the device has failed.
  bool drained() const;

  CudaContext& context;
  bool several_devices;
  PriorityStream sums;
  PriorityStream exchanges;
  CudaEventPool events;
  OperationMarks marks;
  DeviceGroup group;
  std::unique_ptr<Communicator> split;        // leaders, or the others; null with one device
  std::unique_ptr<NcclCommunicator> leaders;  // null elsewhere
  std::unique_ptr<PeerGroup> peers;           // null where gradients go through the leaders

 private:
  /// Enqueues `exchange(leaders)` on the stream; nothing but on leaders.
  template <typename Exchange>
  void between_leaders(cudaStream_t stream, const Exchange& exchange);
  void sum_part(const Lane& lane, const AttachedArena& attached, const ArenaRange& part);
  void exchange_part(const Lane& lane, const AttachedArena& attached, const ArenaRange& part,
                     const Tensor& scratch, std::string_view label);
  /// Instead, by all processes, which reach the sums of the other GPUs.
  void exchange_directly(const Lane& lane, const AttachedArena& attached, const ArenaRange& part);
};

}  // namespace tandem
