#pragma once

#include <cstdint>

#include "parallel/communicator.h"

namespace tandem {

struct MpiOptions {
  /// Elements of the longest message; longer tensors travel in several. MPI counts with an int, and
  /// this bound keeps a message of any dtype at 1 GiB or less. Every rank uses the same.
  std::int64_t message_elements = std::int64_t{1} << 27;
  /// How long an operation may wait for other ranks before it throws CommunicationTimeout; 0: for
  /// ever. Every rank uses the same.
  double timeout_seconds = 20.0;
  /// How long ranks wait for one another to make this communicator, if that is longer: some are
  /// still starting.
  double meeting_seconds = 20.0;
};

/// All processes of the MPI job, or those of a part of it (split()), over tensors in host memory.
/// Needs an initialised MPI, which is
/// what MpiSession is for, and must be destroyed before it ends.
///
/// An asynchronous all-reduce progresses only inside MPI calls, so that whoever wants it to overlap
/// with computing calls Request::test() now and then.
class MpiCommunicator final : public Communicator {
 public:
  /// Collective: duplicates MPI's world, so that this communicator's messages are its own. Throws
  /// CommunicationTimeout where not all ranks come.
  explicit MpiCommunicator(const MpiOptions& options = {});
  ~MpiCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string_view name() const override { return "mpi"; }
  void still_working() override;
  void watch_processes() override;
  void count_operations(std::function<std::uint32_t()> begun) override;

 private:
  /// Collective over `whole`: the ranks of one color.
  MpiCommunicator(const MpiCommunicator& whole, int color);
  /// Sets rank_ and size_.
  void take_place();

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
  std::unique_ptr<Communicator> do_split(int color) override;

  /// MPI's handles, kept out of this header with mpi.h.
  struct Handle;
  std::unique_ptr<Handle> handle_;
  MpiOptions options_;
  std::int64_t bf16_sums_ = 0;  // begun so far
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace tandem
