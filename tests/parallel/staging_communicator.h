#pragma once

#include "device/cuda_context.h"
#include "device/memory_kernels.h"
#include "parallel/communicator.h"
#include "parallel/mpi_test.h"

namespace tandem {

/// A host tensor's double in a GPU's memory; undefined where the tensor is.
class Staged {
 public:
  Staged(CudaContext& context, const Tensor& host)
      : context_(context), host_(host), memory_(context.allocate(host.bytes())) {
    if (host.defined()) copy_to_device(context, host.raw(), host.bytes(), memory_);
  }
  ~Staged() { context_.deallocate(memory_); }
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;

  Tensor tensor() const {
    // Without elements a tensor may have no memory, and is one all the same.
    const bool there = host_.defined() || host_.elements() == 0;
    return there ? Tensor(memory_, host_.shape(), host_.dtype()) : Tensor();
  }
  void bring_back() {
    if (host_.defined()) copy_to_host(context_, memory_, host_.bytes(), host_.raw());
  }

 private:
  CudaContext& context_;
  Tensor host_;
  void* memory_;
};

class StagedRequest final : public Request {
 public:
  StagedRequest(std::unique_ptr<Staged> staged, std::unique_ptr<Request> request,
                std::unique_ptr<Staged> scratch = nullptr)
      : staged_(std::move(staged)), scratch_(std::move(scratch)), request_(std::move(request)) {}

  bool test() override {
    if (!done_ && request_->test()) finish();
    return done_;
  }
  void wait() override {
    if (done_) return;
    request_->wait();
    finish();
  }

 private:
  void finish() {
    staged_->bring_back();
    done_ = true;
  }

  std::unique_ptr<Staged> staged_;
  std::unique_ptr<Staged> scratch_;
  std::unique_ptr<Request> request_;
  bool done_ = false;
};

/// A communicator over GPUs as one over host memory, so that what is tested of host kinds is tested
/// of it.
class StagingCommunicator final : public Communicator {
 public:
  StagingCommunicator(CudaContext& context, Communicator& device)
      : context_(context), device_(device) {}

  int rank() const override { return device_.rank(); }
  int size() const override { return device_.size(); }
  std::string_view name() const override { return "staging"; }
  /// Of all ranks what those need that need any.
  std::int64_t bf16_scratch(std::int64_t elements) const override {
    return devices_of_ranks().size() == 1 ? 0 : Communicator::bf16_scratch(elements);
  }
  void still_working() override { device_.still_working(); }

 private:
  void do_send(const Tensor& tensor, int to) override {
    device_.send(Staged(context_, tensor).tensor(), to);
  }
  void do_recv(const Tensor& tensor, int from) override {
    in_place(tensor, [&](const Tensor& staged) { device_.recv(staged, from); });
  }
  void do_broadcast(const Tensor& tensor, int root) override {
    in_place(tensor, [&](const Tensor& staged) { device_.broadcast(staged, root); });
  }
  void do_all_reduce(const Tensor& tensor, ReduceOp op) override {
    in_place(tensor, [&](const Tensor& staged) { device_.all_reduce(staged, op); });
  }
  std::unique_ptr<Request> do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                               std::string_view label) override {
    auto staged = std::make_unique<Staged>(context_, tensor);
    std::unique_ptr<Request> request = device_.all_reduce_async(staged->tensor(), op, label);
    return std::make_unique<StagedRequest>(std::move(staged), std::move(request));
  }
  std::unique_ptr<Request> do_all_reduce_bf16_async(const Tensor& tensor, const Tensor& scratch,
                                                    std::string_view label) override {
    auto staged = std::make_unique<Staged>(context_, tensor);
    auto staged_scratch = std::make_unique<Staged>(context_, scratch);
    std::unique_ptr<Request> request =
        device_.all_reduce_bf16_async(staged->tensor(), staged_scratch->tensor(), label);
    return std::make_unique<StagedRequest>(std::move(staged), std::move(request),
                                           std::move(staged_scratch));
  }
  void do_reduce(const Tensor& tensor, ReduceOp op, int root) override {
    in_place(tensor, [&](const Tensor& staged) { device_.reduce(staged, op, root); });
  }
  void do_all_gather(const Tensor& input, const Tensor& output) override {
    across(input, output,
           [&](const Tensor& in, const Tensor& out) { device_.all_gather(in, out); });
  }
  void do_gather(const Tensor& input, const Tensor& output, int root) override {
    across(input, output,
           [&](const Tensor& in, const Tensor& out) { device_.gather(in, out, root); });
  }
  void do_scatter(const Tensor& input, const Tensor& output, int root) override {
    across(input, output,
           [&](const Tensor& in, const Tensor& out) { device_.scatter(in, out, root); });
  }
  void do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) override {
    const Staged in(context_, input);
    Staged out(context_, output);
    device_.reduce_scatter(in.tensor(), out.tensor(), op);
    out.bring_back();
    // The tests look whether the input was changed.
    copy_to_host(context_, in.tensor().raw(), input.bytes(), input.raw());
  }
  void do_all_to_all(const Tensor& input, const Tensor& output) override {
    across(input, output,
           [&](const Tensor& in, const Tensor& out) { device_.all_to_all(in, out); });
  }
  void do_barrier() override {
    device_.barrier();
    context_.synchronize();
  }
  void do_wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                     Awaited awaited) override {
    device_.wait_until(done, what, awaited);
  }

  template <typename Operation>
  void in_place(const Tensor& tensor, const Operation& operation) {
    Staged staged(context_, tensor);
    operation(staged.tensor());
    staged.bring_back();
  }
  template <typename Operation>
  void across(const Tensor& input, const Tensor& output, const Operation& operation) {
    const Staged in(context_, input);
    Staged out(context_, output);
    operation(in.tensor(), out.tensor());
    out.bring_back();
  }

  CudaContext& context_;
  Communicator& device_;
};

}  // namespace tandem
