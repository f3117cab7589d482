#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "parallel/communicator.h"
#include "parallel/device_communicator.h"

namespace tandem {

class CudaContext;

/// The ranks of a host kind over the memory of their GPUs, one rank for each, with NCCL.
///
/// Operations are enqueued on the context's stream; asynchronous ones on a stream of its own with a
/// high priority, after what the context's stream was given so far, so that it overlaps with what
/// that is given next. All of them can be captured into a CUDA graph that begins on the context's
/// stream; every request made during the capture is waited for before it ends. (A graph respects
/// the priority where it is instantiated with cudaGraphInstantiateFlagUseNodePriority.) Run what is
/// captured once before: NCCL connects to the other ranks when it first needs them.
///
/// The host waits for the device through wait_until() alone (parallel/stream_watch.h), never by
/// synchronising: ranks that hang then end by the time-out of the host's communicator. After any
/// Error NCCL is given up, so that kernels that wait for other ranks return.
///
/// NCCL does not compare the sizes that ranks pass: where send and recv differ they hang or
/// corrupt.
class NcclCommunicator final : public Communicator {
 public:
  /// Collective over `host`, whose ranks, names and time-outs it takes over. Both outlive it.
  /// Throws InputError on all ranks where two of them share a GPU.
  NcclCommunicator(Communicator& host, CudaContext& context, const DeviceLinkOptions& options = {});
  /// Collective, unless an error unwinds this rank. Graphs that captured operations are destroyed
  /// before.
  ~NcclCommunicator() override;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  std::string_view name() const override { return "nccl"; }
  bool is_host() const override { return false; }
  bool can_reduce(DType) const override { return true; }
  void still_working() override { host_.still_working(); }

  /// Throws SystemError that names `what()`, which is under way, where NCCL has failed.
  void check(const std::function<std::string()>& what);
  /// How many of all_reduce_async's operations the device has begun, modulo 2^32.
  std::uint32_t operations_begun() const;
  /// What the ranks do with NCCL ends here, as after an error: what waits for other ranks on the
  /// device returns.
  void give_up() noexcept;

 private:
  void do_send(const Tensor& tensor, int to) override;
  void do_recv(const Tensor& tensor, int from) override;
  void do_broadcast(const Tensor& tensor, int root) override;
  void do_all_reduce(const Tensor& tensor, ReduceOp op) override;
  std::unique_ptr<Request> do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                               std::string_view label) override;
  std::unique_ptr<Request> do_all_reduce_bf16_async(const Tensor& tensor, const Tensor& scratch,
                                                    std::string_view label) override;
  void do_reduce(const Tensor& tensor, ReduceOp op, int root) override;
  void do_all_gather(const Tensor& input, const Tensor& output) override;
  void do_gather(const Tensor& input, const Tensor& output, int root) override;
  void do_scatter(const Tensor& input, const Tensor& output, int root) override;
  void do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) override;
  void do_all_to_all(const Tensor& input, const Tensor& output) override;
  void do_barrier() override;
  /// Of ranks, names the last all_reduce_async that began on the device too. Throws SystemError,
  /// with the same in the message, as soon as NCCL finds that the exchange has failed.
  void do_wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                     Awaited awaited) override;
  void do_sum_doubles(double* values, std::int64_t count) override;

  /// NCCL's and CUDA's handles, kept out of this header.
  struct Handle;
  Communicator& host_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace tandem
