#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/any_context.h"
#include "device/arena.h"
#include "optim/peer_copies.h"
#include "optim/step_control.h"
#include "tensor/tensor.h"

namespace tandem {

/// A run of the parameter arena, counted in f32 elements, that is updated in one way. What no slice
/// covers (padding between parameters, frozen parameters) is never written.
struct ParameterGroupSlice {
  std::int64_t offset = 0;
  std::int64_t elements = 0;
  float weight_decay = 0.0F;
  /// Whether a rule that adapts its rate to each parameter (LARS) does so here.
  bool adapt = true;
  /// Whether layers read the parameters themselves where there are rounded copies of them.
  bool read_unrounded = true;
};

/// A tensor of an optimizer's state under the name that checkpoints give it.
struct OptimizerState {
  std::string name;
  Tensor tensor;
};

/// What one update needs beside the tensors.
struct UpdateSettings {
  float learning_rate = 0.0F;
  /// Gradients are multiplied by this before anything else: 1/micro-batches, 1/loss scale,
  /// clipping.
  float gradient_scale = 1.0F;
  /// Where not null: in the context's memory, filled by prepare_update() before; its values are
  /// taken instead of those above when the kernels run, and nothing changes where it says skip.
  const StepControl* control = nullptr;
  /// Of a device: where the new parameters are written in bf16 or f16, too, at the same offsets.
  /// Undefined, or the parameters themselves: nowhere.
  Tensor weights{};
  /// Of a device: where new parameters are written besides. Weights go to all of `peers`, and the
  /// parameters themselves where layers read them. Not with LARS.
  PeerCopies peers{};
  /// What of the arena is updated: it begins and ends between two slices. LARS, which looks at
  /// whole parameters, updates all of it.
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

/// Updates the parameter arena in place from the gradient arena. State lies in arenas of the same
/// layout, so that whatever holds for a slice of the gradients (a bucket, a shard) holds for it.
///
/// An optimizer belongs to one context, which outlives it, and to one plan's arena layout.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// The name that run files give it: "sgd", "adamw", "lars".
  virtual std::string_view kind() const = 0;

  /// One update. Both tensors are f32 and hold as many elements as the arena, or the gradients
  /// those alone that the settings' begin and end name; gradients are only read. Throws Error where
  /// they do not fit.
  void step(Tensor parameters, Tensor gradients, const UpdateSettings& settings);
  /// step() in two: the update, which a captured step records once and with a control, and its
  /// count, which is due each time that it runs.
  void enqueue(Tensor parameters, Tensor gradients, const UpdateSettings& settings);
  void count_step() { ++steps_taken_; }

  /// Writes what the coming update under a control needs of this optimizer: the learning rate,
  /// the update's number, and what belongs to the rule.
  virtual void fill(HostControl& control, float learning_rate) const;

  /// Views of the state, in a fixed order; writing them (after which set_steps_taken()) restores a
  /// checkpoint. Empty where the rule keeps none.
  virtual std::vector<OptimizerState> state() = 0;

  /// Moves the state, which must still be zeros, to other zeroed memory.
  void place_state(const ArenaSource& source);

  /// Updates made so far, those that a control skipped and those before a restored checkpoint
  /// included.
  std::int64_t steps_taken() const { return steps_taken_; }
  void set_steps_taken(std::int64_t steps);

  std::int64_t arena_elements() const { return arena_elements_; }

 protected:
  /// Throws Error unless the slices lie in the arena, in ascending order and without overlap.
  Optimizer(AnyContext& context, std::int64_t arena_elements,
            std::span<const ParameterGroupSlice> slices);

  /// The rule itself; the tensors have been checked.
  virtual void update(AnyContext& context, float* parameters, const float* gradients,
                      const UpdateSettings& settings) = 0;

 private:
  /// Those of state(); what is not there is empty.
  virtual std::vector<Arena*> state_arenas() = 0;

  AnyContext* context_;
  std::int64_t arena_elements_;
  std::int64_t steps_taken_ = 0;
};

}  // namespace tandem
