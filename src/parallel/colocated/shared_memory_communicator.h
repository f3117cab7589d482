#pragma once

#include <cstddef>
#include <memory>

#include "parallel/communicator.h"
#include "parallel/placement/rank_topology.h"

namespace tandem {

struct SharedMemoryOptions {
  /// Of the pieces that tensors are cut into. Every rank uses the same.
  std::size_t piece_bytes = std::size_t{512} << 10;
  /// Pieces that may be under way at once, fewer where /dev/shm is small: what goes on while the
  /// ranks compute between two tests of their requests.
  std::int64_t windows = 32;
};

/// The ranks of a host kind, where those of one host share memory: all-reduces go through it, and
/// only one rank of each host, its first, takes part in what goes between hosts.
///
/// Arenas of shared_device()->allocate_arena() are summed where they lie: attach() returns memory
/// that the ranks of a host share. Other arenas are their own sums.
///
/// The other operations, which training uses now and then and of which none is worth memory of its
/// own, are those of `world`, as its ranks, its time-outs and its parts (split()) are.
///
/// An asynchronous all-reduce progresses in test() and wait() of this communicator's requests, of
/// whichever, and nowhere else. So a rank that waits elsewhere meanwhile holds it up, and all ranks
/// wait for their requests and in other operations in one order.
///
/// bf16 is rounded to between hosts alone: each host's sum is rounded, these are added up in f32 in
/// the order of the hosts, and the sums rounded.
class SharedMemoryCommunicator final : public Communicator {
 public:
  /// Collective over `world`, which outlives it. `topology`: of world's ranks, on all of them the
  /// same. Throws InputError on all ranks where those of one host cannot share memory.
  SharedMemoryCommunicator(Communicator& world, const RankTopology& topology,
                           const SharedMemoryOptions& options = {});
  ~SharedMemoryCommunicator() override;

  int rank() const override { return world_.rank(); }
  int size() const override { return world_.size(); }
  /// "colocated" where all ranks are on one host, "hierarchical" where there are several.
  std::string_view name() const override;
  std::int64_t bf16_scratch(std::int64_t elements) const override;
  SharedDevice* shared_device() override;
  /// A part of the sums, which a host's ranks share, where an arena of shared_device()'s is
  /// attached.
  std::size_t attached_bytes(std::int64_t elements) const override;
  void still_working() override { world_.still_working(); }

 private:
  void do_all_reduce(const Tensor& tensor, ReduceOp op) override;
  std::unique_ptr<Request> do_all_reduce_async(const Tensor& tensor, ReduceOp op,
                                               std::string_view label) override;
  std::unique_ptr<Request> do_all_reduce_bf16_async(const Tensor& tensor, const Tensor& scratch,
                                                    std::string_view label) override;
  Tensor do_attach(const Tensor& arena) override;
  void do_detach(const Tensor& arena) override;
  std::unique_ptr<Request> do_sum_attached_async(const Tensor& slice, std::string_view label,
                                                 const Tensor& scratch) override;

  void do_send(const Tensor& tensor, int to) override { world_.send(tensor, to); }
  void do_recv(const Tensor& tensor, int from) override { world_.recv(tensor, from); }
  void do_broadcast(const Tensor& tensor, int root) override { world_.broadcast(tensor, root); }
  void do_reduce(const Tensor& tensor, ReduceOp op, int root) override {
    world_.reduce(tensor, op, root);
  }
  void do_all_gather(const Tensor& input, const Tensor& output) override {
    world_.all_gather(input, output);
  }
  void do_gather(const Tensor& input, const Tensor& output, int root) override {
    world_.gather(input, output, root);
  }
  void do_scatter(const Tensor& input, const Tensor& output, int root) override {
    world_.scatter(input, output, root);
  }
  void do_reduce_scatter(const Tensor& input, const Tensor& output, ReduceOp op) override {
    world_.reduce_scatter(input, output, op);
  }
  void do_all_to_all(const Tensor& input, const Tensor& output) override {
    world_.all_to_all(input, output);
  }
  void do_barrier() override { world_.barrier(); }
  void do_wait_until(const std::function<bool()>& done, const std::function<std::string()>& what,
                     Awaited awaited) override {
    world_.wait_until(done, what, awaited);
  }
  std::unique_ptr<Communicator> do_split(int color) override { return world_.split(color); }

  /// The shared memory and the ranks that talk between hosts.
  struct Parts;
  Communicator& world_;
  int hosts_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tandem
