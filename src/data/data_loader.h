#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "data/augment/mix.h"
#include "data/augment/transform.h"
#include "data/batch.h"
#include "data/batch_buffer.h"
#include "data/datasets/dataset.h"
#include "data/distributed_sampler.h"
#include "data/evaluation_sampler.h"
#include "data/raw_batch.h"

namespace tandem {

/// What one batch is made of.
struct BatchRequest {
  std::int64_t epoch = 0;             ///< names the augmentations, with the seed and the sample
  std::vector<std::int64_t> indices;  ///< at most the loader's batch; may be empty
  std::int64_t step = 0;              ///< in the epoch; names the mix
  /// What the first sample may be mixed with; the others with the one before them. -1: this is no
  /// batch to mix.
  std::int64_t predecessor = -1;
};

/// The batches of a loader by their number from 0; nothing after the last one. The loader calls it
/// in order, from the thread that calls start() and next().
using BatchSource = std::function<std::optional<BatchRequest>(std::int64_t ordinal)>;

/// The endless sequence of training micro-batches, epoch after epoch. Resume at
/// sampler.ordinal(epoch, step).
BatchSource training_batches(DistributedSampler sampler);

/// One pass over an evaluation sampler's batches.
BatchSource evaluation_batches(EvaluationSampler sampler);

/// What happens to a sample that cannot be read.
enum class OnBadSample {
  fail,     ///< next() throws when its batch's turn comes
  replace,  ///< another sample takes its place, drawn from (seed, epoch, sample): the same one
            ///< whatever the number of ranks and threads
  drop      ///< its batch has one sample fewer
};

/// Decodes and augments ahead of the training loop with threads of its own. Up to `prefetch`
/// batches are made beyond the one in use, in buffers that are reused. What it gives depends on the
/// data set, the transform, the source and the seed, never on the threads.
///
/// Raw batches leave the cheap last steps (crop, flip, normalisation, erasing, mixing) to a device
/// and carry bytes, a quarter of the floats. Their draws are the same.
///
/// One thread uses a loader. The data set and the transform must outlive it.
class DataLoader {
 public:
  struct Options {
    int batch = 1;           ///< B
    int workers = 1;         ///< threads, >= 1
    int prefetch = 4;        ///< batches, >= 1
    std::uint64_t seed = 0;  ///< of the augmentations
    OnBadSample on_bad_sample = OnBadSample::fail;
    MixOptions mix{};  ///< how samples are mixed; not together with OnBadSample::drop
    bool raw = false;  ///< raw batches
    /// Where the memory of raw batches comes from; empty: plain host memory.
    HostAllocator allocate{};
    /// The last so many batches that were given out stay as they are. >= 1.
    int hold = 1;
    /// Called by next() several times a second while it waits; may be empty.
    std::function<void()> while_waiting{};
    /// How long next() waits while no thread begins with another sample; 0: for ever.
    double timeout_seconds = 0.0;
  };
  DataLoader(const Dataset& dataset, const Transform& transform, BatchSource source,
             const Options& options);
  /// Drops what is not decoded yet; waits for at most one sample a thread.
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// How the pixels of raw batches lie; of loaders with Options::raw only.
  RawBatchLayout raw_layout() const;

  /// Goes to batch `ordinal` and begins to prefetch from there. Batches given out before are void.
  void start(std::int64_t ordinal);

  /// Drops what is not decoded yet; waits for at most one sample a thread. Then start() again.
  void stop();

  /// The next batch (the first one where start() was never called), or nullptr after the last. The
  /// batch given out Options::hold calls before is void then. A
  /// sample that could not be read throws here what its reading threw, when its batch's turn comes
  /// (the first such sample of the batch); every later call throws it again, until start(). Throws
  /// DataTimeout (data/data_timeout.h) that names a sample where reading stands still; start() and
  /// the destructor then wait for what does not come.
  const Batch* next();

  /// Seconds that next() has waited for batches so far.
  double wait_seconds() const { return wait_seconds_; }

 private:
  struct Slot;

  void prefetch();
  void submit(Slot& slot, BatchRequest request, std::int64_t ordinal);
  void begin_mix(Slot& slot, const BatchRequest& request) const;
  void decode(Slot& slot, std::size_t begin, std::size_t end);
  void mix(Slot& slot) const;
  std::unique_ptr<BatchBuffer> make_buffer() const;
  void decode_sample(Slot& slot, std::size_t at);
  void replace_sample(Slot& slot, std::size_t at);
  void load_into(Slot& slot, std::size_t at, std::int64_t index);
  void settle_bad(Slot& slot) const;
  void wait_for(const Slot& slot);
  [[noreturn]] void fail_to_read(const Slot& slot) const;
  Slot& slot_of(std::int64_t ordinal);

  const Dataset& dataset_;
  const Transform& transform_;
  BatchSource source_;
  Options options_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::int64_t head_ = 0;       ///< ordinal that next() gives next
  std::int64_t requested_ = 0;  ///< ordinal that is asked of the source next
  bool exhausted_ = false;
  double wait_seconds_ = 0.0;

  std::mutex mutex_;  ///< guards the slots' counts and errors
  std::condition_variable done_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::int64_t> begun_{0};  ///< readings so far
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace tandem
