#pragma once

#include <cstddef>
#include <cstdint>

#include "device/cuda_context.h"
#include "device/pinned_memory.h"
#include "optim/context_table.h"
#include "optim/step_control.h"

namespace tandem {

/// What the host tells a step that it enqueues.
struct StepOrder {
  HostControl control;
  float stop = 0.0F;  ///< 1: this rank asks to stop
};

/// A step's statistics in device memory.
struct StepStatistics {
  float sums[4];  ///< loss, samples, top1, top5: summed over micro-batches, then over all ranks
  float stop;     ///< how many ranks asked to stop
  float exposed;  ///< seconds that this rank waited for gradients after backward

  static constexpr int summed = 5;  ///< floats from the first on, over the ranks
};
static_assert(offsetof(StepStatistics, exposed) == StepStatistics::summed * sizeof(float));

/// What a step leaves for the host.
struct StepFound {
  StepStatistics statistics;
  StepState state;
};

/// Orders to steps that run on a device, and what they find, in page-locked memory that kernels of
/// the step read and write themselves: so all of a step can be one captured graph. There are two
/// places of each, used in turn, so that the host reads of one step and writes for the next while
/// the other is under way.
class StepMailbox {
 public:
  /// `context` outlives it.
  explicit StepMailbox(AnyContext& context);

  /// Where the order of the next step to be enqueued goes, which becomes the current one. The step
  /// before the current one must have ended.
  StepOrder& next_order();
  /// Of the current step (0) or the one before (1), once it has ended.
  const StepFound& found(int steps_ago) const;
  /// The place of the current step, 0 or 1; the step before is at the other.
  int place() const { return place_; }

  /// Enqueues what begins a step: its order is brought to `control`, and `statistics` start as
  /// zeros but for the wish to stop.
  void enqueue_begin(StepControl* control, StepStatistics* statistics);
  /// Enqueues what ends it.
  void enqueue_end(const StepControl* control, const StepStatistics* statistics);

 private:
  CudaContext& context_;
  struct Places {
    StepOrder orders[2];
    StepFound found[2];
  };
  PinnedMemory<Places> places_;
  ContextTable<std::uint32_t> ended_;  // steps
  int place_ = 1;
};

}  // namespace tandem
