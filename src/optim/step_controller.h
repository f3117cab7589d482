#pragma once

#include <span>

#include "optim/step_decision.h"
#include "optim/update_blocks.h"
#include "tensor/tensor.h"

namespace tandem {

/// The control of a run's steps in the context's memory, and the decision on each of its updates.
/// The context outlives it.
class StepController {
 public:
  /// The slices are those of the optimizer. The loss scale starts at LossScale::first with loss
  /// scaling and stays 1 without.
  StepController(AnyContext& context, std::span<const ParameterGroupSlice> slices,
                 const StepRules& rules);

  /// In the context's memory, at the same place as long as this lives. Only the host's part may be
  /// written, before the step that it is for runs and after the step before has.
  StepControl* control() const { return control_.rows().data(); }

  /// Enqueues prepare_update(): the first element of `statistics` (f32) is the step's summed loss,
  /// `gradients` the whole arena (f32), both summed over the ranks. Allocates nothing.
  void prepare(const Tensor& statistics, const Tensor& gradients);

  /// Writes the host's part; waits for what is enqueued.
  void write(const HostControl& host);
  /// How the last update went; waits for it.
  StepState state() const;
  /// For a restored loss scale, or to go on after a loss that was not finite.
  void set_state(const StepState& state);

 private:
  AnyContext* context_;
  StepRules rules_;
  BlockTable blocks_;
  ContextTable<double> block_sums_;
  ContextTable<StepControl> control_;
};

}  // namespace tandem
