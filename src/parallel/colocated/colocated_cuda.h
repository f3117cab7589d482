#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "parallel/communicator.h"
#include "parallel/device_communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

class CudaContext;

/// How processes run on the GPUs that they share.
struct GpuSharing {
  /// Kernels of a process may wait for those of others on this GPU, which run at the same time
  /// under MPS. The same on all ranks of a GPU.
  bool kernels_wait = false;
  /// Without MPS the ranks of one of the GPUs, at least, take turns on it. The same on all ranks.
  bool time_sliced = false;
};

/// The ranks of a host kind over the memory of their GPUs, several ranks to a GPU.
///
/// The processes of a GPU map each other's memory (CUDA IPC) and wait for each other on the device
/// (parallel/mapped/device_barrier.h). Where there are several GPUs their leaders, the lowest
/// rank of each, exchange what the processes of a GPU have combined, through NCCL, which sees no
/// other rank; then the leader's result is everybody's. With one GPU there is no NCCL.
///
/// attach() shares the arenas and one memory of sums per GPU, which is the leader's. In
/// sum_attached_async() each process adds up its share of the slice over the arenas into those
/// sums, so k processes read k arenas and write one. Then these are summed over the GPUs, in place,
/// while the next slice's sum may go on: by NCCL between leaders, or directly, by all processes,
/// each a share of its GPU's share (parallel/direct/direct_sum.h). What is not attached travels
/// through a slot per process.
///
/// Operations are enqueued, captured and waited for as NcclCommunicator's are, but these: send,
/// recv, broadcast, all_gather, gather, scatter and all_to_all, which no training step needs, go
/// through the memory of the hosts and are done on return, so that they cannot be captured. What
/// travels as bf16 does so between GPUs alone: each GPU's sum is rounded.
///
/// After any Error the ranks are given up: whatever waits on the GPU returns, in the other
/// processes too where they are clients of MPS, whose work must end before they do.
class ColocatedCudaCommunicator final : public Communicator {
 public:
  /// Collective over `host`, whose ranks and time-outs it takes over. `topology`: how its ranks lie
  /// on GPUs. `options.exchange`: of several GPUs, nccl or direct; direct where all GPUs reach each
  /// other's memory and no ranks take turns on one. Host and context outlive it. Throws SystemError
  /// where processes of a GPU cannot share memory.
  ColocatedCudaCommunicator(Communicator& host, CudaContext& context, const RankTopology& topology,
                            const GpuSharing& sharing, const DeviceLinkOptions& options = {});
  /// Collective, unless an error unwinds this rank. Graphs that captured operations are destroyed
  /// before.
  ~ColocatedCudaCommunicator() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  /// "colocated", or "hierarchical" where there are several GPUs.
  std::string_view name() const override { return devices_ == 1 ? "colocated" : "hierarchical"; }
  bool is_host() const override { return false; }
  bool can_reduce(DType) const override { return true; }
  SumCost sum_cost() const override { return sum_cost_; }
  /// Of a leader, what the leaders need; elsewhere 0, or with direct exchange as much.
  std::int64_t bf16_scratch(std::int64_t elements) const override;
  SharedDevice* shared_device() override;
  /// A part of the sums, which lie in the leader's memory.
  std::size_t attached_bytes(std::int64_t elements) const override;
  void still_working() override { host_.still_working(); }

 private:
  void do_send(const Tensor& tensor, int to) override;
  void do_recv(const Tensor& tensor, int from) override;
  void do_broadcast(const Tensor& tensor, int root) override;
  void do_all_reduce(const Tensor& tensor, ReduceOp op) override;
  std::unique_ptr<Request> do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                               std::string_view label) override;
  std::unique_ptr<Request> do_all_reduce_bf16_async(const Tensor& tensor, const Tensor& scratch,
                                                    std::string_view label) override;
  Tensor do_attach(const Tensor& arena) override;
  void do_detach(const Tensor& arena) override;
  std::unique_ptr<Request> do_sum_attached_async(const Tensor& slice, std::string_view label,
                                                 const Tensor& scratch) override;
  void do_reduce(const Tensor& tensor, ReduceOp op, int root) override;
  void do_all_gather(const Tensor& input, const Tensor& output) override;
  void do_gather(const Tensor& input, const Tensor& output, int root) override;
  void do_scatter(const Tensor& input, const Tensor& output, int root) override;
  void do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) override;
  void do_all_to_all(const Tensor& input, const Tensor& output) override;
  void do_barrier() override;
  /// Of ranks, names the last operation of a stream of its own that began on the device too.
  void do_wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                     Awaited awaited) override;
  void do_sum_doubles(double* values, std::int64_t count) override;

  /// CUDA's and NCCL's handles, kept out of this header.
  struct Handle;
  /// Before an operation. Throws Error once the ranks were given up.
  Handle& begin();
  /// Whether there is something to sum, and somebody to sum it with.
  bool shares(const Tensor& tensor) const { return size() > 1 && tensor.elements() > 0; }
  void give_up() noexcept;
  void close() noexcept;

  Communicator& host_;
  int devices_;
  SumCost sum_cost_;
  int exceptions_;
  bool given_up_ = false;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
