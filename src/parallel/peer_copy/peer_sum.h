#pragma once

// Included by sources only.

#include <cuda_runtime_api.h>

#include <vector>

#include "parallel/colocated/colocated_sum.h"
#include "parallel/cuda_event_pool.h"
#include "parallel/operation_marks.h"
#include "parallel/peer_copy/copy_layout.h"
#include "parallel/peer_copy/peer_group.h"
#include "parallel/priority_stream.h"

namespace tandem {

class CudaContext;

/// Sums slices of attached arenas over the ranks of a group, in place: long ones by copy engines,
/// short ones, whose time is all waiting, by a kernel (parallel/peer_copy/direct_sum.h).
///
/// A long slice takes these steps on each rank; the first two on one lane, the others on another,
/// so that the next slice's contributions travel while this one's sums do:
///   1. scatter: copies its elements of each other rank's share into that one's staging memory;
///   2. a barrier: every contribution has arrived;
///   3. adds up its own share, in place, in the order of the ranks;
///   4. gather: copies these sums into the arena of each other rank;
///   5. a barrier: all sums have arrived.
///
/// Two barriers are enough. Say rank r works on slice s, and p is another rank.
/// - Step 1 writes into p's staging memory at s. Before, p read that in step 3 of an earlier
///   operation on s, or on a slice that overlaps it. r has waited for that operation, as it must
///   before it writes the slice again, thus for its step 5, where p arrived behind its step 3.
/// - Step 3 overwrites r's own share, which no other step of r's reads but step 4; p reads nothing
///   of r's memory at all.
/// - Step 4 writes r's share in p's arena. Before, p computed it there and read it in its step 1,
///   behind which it arrived in step 2, which r has passed. Afterwards p's optimizer reads it, and
///   its next backward writes it, behind p's step 5, where r arrived behind its step 4.
/// So a slice may be summed again at once, and a graph that captured this be launched again.
///
/// A short slice takes the barriers of steps 2 and 5 alone. Between them each rank adds up its
/// share over all arenas and writes the sums into all; nobody else reads or writes that share then.
///
/// All ranks enqueue the same operations in the same order: so what waits in a barrier waits for
/// work that the other devices were given before that barrier.
class PeerSum {
 public:
  /// All outlive it. `most_direct`: elements of the longest slice that the kernel sums.
  PeerSum(CudaContext& context, CudaEventPool& events, PeerGroup& group, std::int64_t most_direct);

  /// Enqueues a sum behind what the context's stream was given so far. Returns the stream that it
  /// ends on. `mark`: written for the host as the ranks begin to wait for each other.
  CUstream_st* enqueue(const PeerArena& attached, const ArenaRange& slice,
                       const OperationMark& mark);

 private:
  /// A stream for what follows a barrier or precedes it, and one for the copies to each other rank,
  /// so that several engines copy at the same time.
  struct Lane {
    explicit Lane(int ranks) : copies(static_cast<std::size_t>(ranks - 1)) {}
    cudaStream_t stream() const { return order.get(); }

    PriorityStream order;
    std::vector<PriorityStream> copies;
  };

  /// Enqueues `copy(peer, stream)` for each other rank, behind what `first` was given so far and
  /// before what the lane's stream is given next.
  template <typename Copy>
  void copy_to_all(cudaStream_t first, const Lane& lane, const Copy& copy);
  void scatter(const PeerArena& attached, const CopyLayout& layout);
  void sum_and_gather(const PeerArena& attached, const CopyLayout& layout);
  void barrier(const Lane& lane, int channel, const OperationMark& mark = {});
  MemberMemory contributions(const PeerArena& attached, const CopyLayout& layout) const;

  CudaContext& context_;
  CudaEventPool& events_;
  PeerGroup& group_;
  std::int64_t most_direct_;
  Lane scatter_;
  Lane gather_;
};

}  // namespace tandem
