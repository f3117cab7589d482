#pragma once

#include <chrono>

#include "parallel/communicator.h"
#include "parallel/device_patience.h"

namespace tandem {

/// The group of one: every collective is the identity (a copy where there is an output), requests
/// are done when made, and there is nobody to send to.
class SelfCommunicator final : public Communicator {
 public:
  /// `timeout_seconds`: for how long at least wait_until() waits for what this rank's own device is
  /// at (parallel/device_patience.h); 0: for ever.
  explicit SelfCommunicator(double timeout_seconds = 0.0)
      : timeout_(timeout_seconds), patience_(timeout_) {}
  /// wait_until() waits as that of `host`, which outlives it, does.
  explicit SelfCommunicator(Communicator& host) : host_(&host) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view name() const override { return "self"; }

 private:
  using Seconds = std::chrono::duration<double>;

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
  void do_wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                     Awaited awaited) override;
  void do_sum_doubles(double* values, std::int64_t count) override;
  std::unique_ptr<Communicator> do_split(int color) override;

  Seconds timeout_{0.0};
  DevicePatience patience_{timeout_};
  Communicator* host_ = nullptr;
};

}  // namespace tandem
