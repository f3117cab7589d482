#pragma once

#include <cstdint>

namespace tandem {

/// What ends at a moment of a training step. A step of n micro-batches has the moments start, n
/// times (input, the layers forward, loss, the layers backward), reduction, update.
enum class StepPart : std::uint8_t {
  start,      ///< the step begins
  input,      ///< a micro-batch is where the model reads it
  layer,      ///< of one layer: its forward pass, and after the loss its backward pass
  loss,       ///< with its gradient
  reduction,  ///< the wait for the gradients' sums after backward: exposed communication
  update,     ///< of the weights, and so the step
};

/// Is told the moments of training steps: on the CPU when they have come, on a device when what
/// leads to them is enqueued. A captured step tells them while it is captured, and what the
/// observer then enqueues becomes a part of every launch.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void ended(StepPart part) = 0;
};

}  // namespace tandem
