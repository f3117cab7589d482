#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <vector>

namespace tandem {

/// Which samples each rank trains on in each step.
///
/// An epoch is one permutation of all samples, the same on every rank (Fisher-Yates from the random
/// stream of (seed, epoch)). Step s takes its entries [s G, (s + 1) G), G the global batch. With
/// B = G / (world * accumulate), micro-batch m of rank r takes [s G + (m world + r) B, + B). So the
/// samples of a step depend on (seed, epoch, G) alone, never on the rank count, and every rank does
/// the same number of steps. A process that carries k ranks counts as one of k times the samples:
/// those of rank p of P such processes are those of ranks p k to p k + k - 1 of P k, in that order.
/// The last dropped() entries of each epoch's permutation are left out; which samples those are
/// changes from epoch to epoch.
class DistributedSampler {
 public:
  struct Options {
    std::int64_t size = 0;          ///< samples in the data set
    std::int64_t global_batch = 0;  ///< samples a step, over all ranks and micro-batches
    int world = 1;
    int rank = 0;
    int accumulate = 1;  ///< micro-batches a step
    int folded = 1;      ///< ranks that each of `world` carries; they get equal parts
    std::uint64_t seed = 0;
    bool shuffle = true;  ///< false: the order of the data set in every epoch
  };
  /// Throws InputError where the global batch does not divide by world * folded * accumulate or the
  /// data set is smaller than one global batch. At most 2^32 samples.
  explicit DistributedSampler(const Options& options);

  /// The first of the two alone, for which neither `size` nor `rank` counts.
  static void require_dealt(const Options& options);

  std::int64_t steps_per_epoch() const { return options_.size / options_.global_batch; }
  /// Samples left out of each epoch.
  std::int64_t dropped() const { return options_.size % options_.global_batch; }
  /// B: samples of one micro-batch of this rank, of all that it carries together.
  std::int64_t micro_batch() const { return micro_batch_; }
  int accumulate() const { return options_.accumulate; }
  const Options& options() const { return options_; }

  /// This rank's samples in micro-batch `micro` of `step` of `epoch` (all from 0). Keeps the last
  /// epoch's permutation, and has a thread make the next one's where that takes long, so ask in
  /// order; not for several threads at once.
  std::vector<std::int64_t> indices(std::int64_t epoch, std::int64_t step, int micro);

  /// The sample before the first one of indices() in the step's global batch; the batch's last one
  /// where there is none before.
  std::int64_t predecessor(std::int64_t epoch, std::int64_t step, int micro);

  /// Number of a micro-batch in the unbounded sequence of training: for DataLoader::start().
  std::int64_t ordinal(std::int64_t epoch, std::int64_t step) const {
    return (epoch * steps_per_epoch() + step) * options_.accumulate;
  }

 private:
  using Permutation = std::shared_ptr<const std::vector<std::uint32_t>>;

  static Permutation permutation_of(const Options& options, std::int64_t epoch);
  void turn_to(std::int64_t epoch);
  /// Place of a micro-batch's first sample in the step's global batch, after the checks and with
  /// the epoch's permutation at hand.
  std::int64_t place(std::int64_t epoch, std::int64_t step, int micro);

  Options options_;
  std::int64_t micro_batch_ = 0;
  std::int64_t epoch_ = -1;  ///< of permutation_
  Permutation permutation_;
  std::shared_future<Permutation> next_;  ///< of the epoch behind it, where that is made ahead
};

}  // namespace tandem
