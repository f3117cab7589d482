#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/communicator.h"
#include "parallel/peer_devices.h"

namespace tandem {

/// One parameter's gradient in the gradient arena, in elements.
struct ParameterSlice {
  std::string name;
  std::int64_t offset = 0;
  std::int64_t elements = 0;
};

/// Bucket sizes of PyTorch's DistributedDataParallel (Li et al., VLDB 2020): the first is small, so
/// that communication starts early in backward.
struct BucketOptions {
  std::int64_t first_bytes = std::int64_t{1} << 20;
  std::int64_t bytes = std::int64_t{25} << 20;
  /// Buckets shrink towards the end: none takes more than half of what is left, unless that is
  /// below first_bytes. Backward hides nothing of the last one.
  bool taper = false;
  /// No bucket holds slices from before this one and from there on.
  std::size_t apart = 0;
};

/// The slices [first, last), which lie within `elements` elements of the arena from `offset` on:
/// reduced as one message, gaps included.
struct Bucket {
  std::size_t first = 0;
  std::size_t last = 0;
  std::int64_t offset = 0;
  std::int64_t elements = 0;

  bool operator==(const Bucket&) const = default;
};

/// Cuts slices, given about in the order in which backward finishes them, into buckets. A bucket
/// takes slices while it stays within its limit (first_bytes for the first bucket, bytes or less
/// for the others, f32 elements, gaps included); a slice is never split, and one beyond the limit
/// gets a bucket of its own. Offsets ascend and slices do not overlap; alignment gaps between them
/// are allowed. Throws Error naming the slice where that does not hold.
std::vector<Bucket> cut_buckets(std::span<const ParameterSlice> slices,
                                const BucketOptions& options = {});

/// What gradients travel as.
enum class GradientCompression : std::uint8_t {
  none,  ///< as f32
  bf16,  ///< as bf16, their sums in f32 (Communicator::all_reduce_bf16_async)
};

/// Elements of bf16 scratch that reducing these buckets as bf16 needs; none for one rank.
std::int64_t bf16_scratch(const Communicator& communicator, std::span<const Bucket> buckets);

/// What reduction cost since it was last asked for.
struct ReductionStats {
  std::int64_t bytes = 0;     ///< of the buckets, as they travel, each counted once a step
  std::int64_t messages = 0;  ///< buckets launched
  /// Spent in finish() waiting, not hidden behind computing. Absent where the communicator is a
  /// device kind: the host does not wait there, so that it has no such time to tell.
  std::optional<double> exposed_seconds{};
};

/// Sums gradients over ranks while backward still computes (Li et al. 2020, "PyTorch Distributed",
/// VLDB 13(12), Algorithm 1).
///
/// A step: begin_step(); ready(i) as each gradient is done, in any order; progress() between
/// layers; finish(). A bucket is launched when its last gradient is ready, and always in bucket
/// order, so that all ranks start the same collectives in the same order however their backward
/// passes race. Between ready(i) and finish() the gradient belongs to the bucketer. After finish()
/// sums() holds the sums; averaging is a factor in the optimizer's update. With gradient
/// accumulation only the last micro-batch's backward is put between begin_step() and finish().
///
/// Frozen parameters are left out of the slices. Gaps are reduced with their bucket, so they must
/// hold finite numbers (arenas start as zeros). World size 1 launches nothing, and may do something
/// else with each bucket (update_each()).
///
/// With a communicator of a device kind a step enqueues: ready(i) what is enqueued in its context
/// so far computes the gradient, finish() makes the context's stream wait, and the whole step may
/// be captured into a CUDA graph, whose launches then repeat it. Counts are then those of
/// capturing.
class GradientBucketer {
 public:
  /// Collective. `gradients`: the f32 arena, in the memory that the communicator takes; it and the
  /// communicator outlive the bucketer. One rank, which sums nothing, may have none: undefined.
  /// Slices, and `buckets` as cut_buckets() cuts these, are the same on all ranks (see
  /// check_same_plan). `scratch`: bf16_scratch() elements in the same memory, 16-byte aligned;
  /// where it is defined buckets travel as bf16.
  GradientBucketer(Communicator& communicator, const Tensor& gradients,
                   std::vector<ParameterSlice> slices, std::vector<Bucket> buckets,
                   const Tensor& scratch = {});

  /// Collective, unless an error unwinds this rank.
  ~GradientBucketer();
  GradientBucketer(const GradientBucketer&) = delete;
  GradientBucketer& operator=(const GradientBucketer&) = delete;

  /// From the next step on this rank gets the sums of its share of each bucket alone, and
  /// `update(b)` enqueues what is done with those of bucket b (PeerDevices::sum_share), for which
  /// finish() waits, on all ranks. `peers`: the communicator's. Not with scratch.
  void update_shares(PeerDevices& peers, std::function<void(std::size_t bucket)> update);

  /// Of one rank: from the next step on `update(b)` enqueues what is done with the gradients of
  /// bucket b, and is called once all of these are ready, in the order of buckets. Throws Error of
  /// several ranks, or within a step.
  void update_each(std::function<void(std::size_t bucket)> update);

  /// Throws Error where the step before was not finished.
  void begin_step();
  /// The gradient of slice `i` is done. Throws Error naming it where it was done already.
  void ready(std::size_t i);
  /// Lets what was launched progress. Cheap; called between layers.
  void progress();
  /// Waits for every bucket. Throws Error naming a parameter that was never ready.
  void finish();

  /// Where the sums over the ranks are once a step is finished, each at its gradient's place: in
  /// the gradients' arena, or in the communicator's memory (Communicator::attach), which is not
  /// written. With update_shares() in this rank's shares alone: elsewhere its own gradients.
  /// Undefined where there is no arena.
  const Tensor& sums() const { return sums_; }

  /// Whether gradients travel as bf16.
  bool compresses() const { return scratch_.defined(); }

  const std::vector<ParameterSlice>& slices() const { return slices_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }

  /// The counts since the last call, which it sets back to zero.
  ReductionStats take_stats();

 private:
  void launch_complete_buckets();
  /// Null where only all launches together have a request.
  std::unique_ptr<Request> launch(std::size_t b);
  void check_all_ready() const;
  static ReductionStats no_stats(const Communicator& communicator);

  Communicator& communicator_;
  Tensor gradients_;
  std::vector<ParameterSlice> slices_;
  std::vector<Bucket> buckets_;
  Tensor sums_;
  Tensor scratch_;                           // undefined where gradients travel as f32
  std::vector<std::int64_t> scratch_at_;     // by bucket
  std::vector<std::string> labels_;          // by bucket, for messages
  std::vector<std::size_t> bucket_of_;       // by slice
  PeerDevices* peers_ = nullptr;             // null where every rank gets all sums
  std::function<void(std::size_t)> update_;  // of a share or of one rank's bucket, or empty

  bool in_step_ = false;
  std::vector<bool> ready_;           // by slice
  std::vector<std::size_t> pending_;  // by bucket: gradients not yet ready
  std::size_t next_ = 0;              // first bucket not launched
  std::size_t oldest_ = 0;            // first request not known to be done
  std::vector<std::unique_ptr<Request>> requests_;
  ReductionStats stats_;
};

}  // namespace tandem
