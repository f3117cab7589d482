#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "parallel/gradient_bucketer.h"
#include "tensor/precision.h"
#include "train/ranks/replica_place.h"

// The key invariant: at one global batch, k ranks of N samples, k ranks of N in one process, one
// rank of k micro-batches of N, and every mixture give what a plain reference gives: k passes of N
// samples, one after the other, their gradients averaged in double precision, and SGD written out.
// The reference cuts the slices out of the whole global batch itself, and mixes it before where
// that is asked for.

namespace tandem {

class Replica;

/// Losses of each step, and at the end the weights, the running statistics and, of training
/// together, the momentum and the weights' average, where there is one.
struct Trajectory {
  std::vector<double> losses;
  std::vector<float> weights;
  std::vector<float> statistics{};
  std::vector<float> momentum{};
  std::vector<float> average{};
};

/// What a run of the small model does beside the usual.
struct SmallRun {
  int accumulate = 1;
  int folded = 1;         ///< ranks that each process carries
  std::string augment{};  ///< lines of [data.augment]
  Precision precision = Precision::fp32;
  GradientCompression compression = GradientCompression::none;
  bool shared_state = false;
  bool sync_batch_norm = false;
  bool sharded_update = true;      ///< where ranks can
  bool update_in_backward = true;  ///< where one rank can
  double average_decay = 0.0;      ///< of the weights; 0: none
  std::int64_t bucket_bytes = 0;   ///< of gradients; 0: as usual, which is one bucket or two
  /// Done before each step, which is counted from 0; may be empty.
  std::function<void(int step)> before_step{};
  /// Done after the last step, before replicas are compared; may be empty.
  std::function<void(Replica&)> before_check{};
};

/// What Tandem does: all ranks together. Checks that their replicas are equal in every bit.
Trajectory train_together(const SmallRun& run, const ReplicaPlace& place);

/// The same by hand, on this rank's CPU alone, in fp32: `slices` passes a step. `share` is the
/// factor of the sum of their gradients, 1 / slices where all is right.
Trajectory train_by_hand(int slices, double share, const std::string& augment = {});

/// The larger of: the largest relative difference of a loss, and the norm of the weights'
/// difference over the norm of the weights.
double difference(const Trajectory& a, const Trajectory& b);

/// What difference() may be where all is right, and what it is at least where something is wrong.
struct Bounds {
  double right;
  double wrong;
};

/// Trains together and by hand, and expects that both are the same within the bounds, and that the
/// comparison sees what it is for.
void expect_reference(const SmallRun& run, const ReplicaPlace& place, const Bounds& bounds);

/// Trains together with batch statistics over all ranks, and expects the losses, weights and
/// running statistics of one rank that has the whole batch, or every whole micro-batch: the slices
/// are the micro-batches here, however many ranks there are. Expects the statistics to be the same
/// on all ranks to the last bit, and statistics of each rank's own samples to lead elsewhere.
void expect_synchronised(SmallRun run, const ReplicaPlace& place, const Bounds& bounds);

/// Expects the same losses and weights on all ranks, to the last bit.
void expect_same_on_all_ranks(const SmallRun& run, const ReplicaPlace& place);

/// Expects gradients as bf16 to lead to the same as others but for bf16's rounding, which is more
/// than `noise`; with one rank, to the same bits.
void expect_compression_to_change_little(const ReplicaPlace& place, double noise);

}  // namespace tandem
