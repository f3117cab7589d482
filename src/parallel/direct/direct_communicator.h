#pragma once

#include <functional>
#include <memory>
#include <string>

#include "parallel/communicator.h"
#include "parallel/device_communicator.h"
#include "parallel/nccl/nccl_communicator.h"
#include "parallel/peer_devices.h"

namespace tandem {

class CudaContext;

/// The ranks of one host, with a GPU each that reaches those of the others, which sum gradients in
/// each other's memory: NCCL's kernels take more multiprocessors from what computes beside them,
/// and longer for little.
///
/// attach() maps the ranks' arenas into each other. In sum_attached_async() each rank adds up its
/// share of the slice over all arenas, in the order of the ranks, and writes the sums into all
/// (parallel/direct/direct_sum.h); so every rank gets the same bits, and every run too. Before and
/// after, the ranks wait for each other on the device (parallel/mapped/device_barrier.h):
/// between these two barriers nobody else reads or writes a rank's share, before the first one each
/// arena has the rank's own gradients, and behind the second one the sums. So a slice may be summed
/// again at once, and a graph that captured this be launched again. Operations are enqueued,
/// captured and waited for as NcclCommunicator's are.
///
/// By peer_devices() a rank gets the sums of its share alone, to update what these are gradients of
/// and write that to the others; then one barrier behind all slices will do.
///
/// Everything else goes through NCCL: what is not attached, and what travels as bf16.
///
/// After any Error the ranks are given up: whatever waits on a GPU returns, on the others' too; and
/// what these may still write of this rank's memory, arenas too, stays allocated while it lives.
class DirectCommunicator final : public Communicator {
 public:
  /// Collective over `host`, whose ranks and time-outs it takes over. Both outlive it. Throws
  /// InputError on all ranks where two of them share a GPU, SystemError where they cannot map each
  /// other's memory.
  DirectCommunicator(Communicator& host, CudaContext& context,
                     const DeviceLinkOptions& options = {});
  /// Collective, unless an error unwinds this rank. Graphs that captured operations are destroyed
  /// before.
  ~DirectCommunicator() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string_view name() const override { return "direct"; }
  bool is_host() const override { return false; }
  bool can_reduce(DType) const override { return true; }
  SumCost sum_cost() const override { return SumCost::little_fast; }
  void still_working() override { host_.still_working(); }
  PeerDevices* peer_devices() override;

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

  /// CUDA's handles, kept out of this header.
  struct Handle;
  /// Before an operation. Throws Error once the ranks were given up.
  Handle& begin();
  /// As begin(), for an operation of NCCL's.
  NcclCommunicator& nccl();
  /// Whether there is something to sum, and somebody to sum it with.
  bool shares(const Tensor& tensor) const { return size() > 1 && tensor.elements() > 0; }
  void give_up() noexcept;
  void close() noexcept;

  Communicator& host_;
  int exceptions_;
  bool given_up_ = false;
  NcclCommunicator nccl_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
