#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <vector>

#include "graph/parameters.h"
#include "optim/optimizer.h"
#include "parallel/gradient_bucketer.h"
#include "parallel/peer_devices.h"
#include "parallel/slice_hashes.h"
#include "parallel/slice_share.h"
#include "train/run_config.h"

namespace tandem {

/// Each rank updates its share of each bucket of parameters, while backward still computes the
/// gradients of the next ones, and writes the new weights to all ranks (parallel.sharded_update): k
/// ranks take a k-th of the time each, and sums of gradients need not travel back.
///
/// Of a parameter that layers read rounded, others get the rounded weight alone. So a rank has
/// values and optimizer state of its own share, and of the others' those that they last had in
/// common: gather() brings them.
///
/// Nobody's weight is overwritten that is still read: a bucket is complete when backward is done
/// with its layers, and no rank updates before all have completed it. Forward begins when all
/// buckets are updated. Whether the step is skipped follows from the losses of all ranks, which are
/// known by then. Runs that clip or scale update otherwise: theirs depends on all gradients.
class ShardedUpdate {
 public:
  /// The shares that this rank updates, by bucket; nothing where the run updates otherwise.
  static std::optional<std::vector<ArenaRange>> shares(const RunConfig& config,
                                                       Communicator& reduction,
                                                       const std::vector<Bucket>& buckets);

  /// Collective, and so is its end unless an error unwinds this rank. `shares` as shares() gave
  /// them. All references outlive it; the bucketer's buckets are of `store`.
  ShardedUpdate(Communicator& reduction, ParameterStore& store, const GradientBucketer& bucketer,
                std::vector<ArenaRange> shares);

  PeerDevices& peers() const { return *reduction_.peer_devices(); }
  /// How this rank updates its share of a bucket; the rest is the step's.
  UpdateSettings settings(std::size_t bucket) const;

  /// Collective: brings every rank all of this arena (f32, laid out as the gradients), each share
  /// from who updates it.
  void gather(const Tensor& arena);
  /// Collective, over `hosts`, before gather(), which makes values alike: throws the same Error on
  /// all ranks where what layers read of trained parameters differs between ranks in any bit.
  void check_bits(Communicator& hosts) const;
  /// After gather() of the values: throws Error unless they are, rounded, what layers read.
  void check_rounding();

 private:
  /// Collective, but for the destructor where an error unwinds this rank.
  class Attached {
   public:
    Attached(Communicator& communicator, const Tensor& arena);
    ~Attached() { communicator_.detach(arena_); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

    std::vector<float*> of_all() const;

   private:
    Communicator& communicator_;
    Tensor arena_;
  };

  /// Of what layers read, and what of that is whose; slices of the same parameter may come twice.
  struct ReadBits {
    SliceHashes hashes;
    std::vector<ParameterSlice> slices;
  };
  ReadBits read_bits() const;

  Communicator& reduction_;
  ParameterStore& store_;
  const GradientBucketer& bucketer_;
  std::vector<ArenaRange> shares_;
  std::list<Attached> attached_;
  PeerCopies copies_;
};

}  // namespace tandem
