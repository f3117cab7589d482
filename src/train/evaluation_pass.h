#pragma once

#include <memory>

#include "data/batch.h"
#include "device/any_context.h"
#include "graph/step_plan.h"
#include "parallel/communicator.h"
#include "train/step/raw_input.h"

namespace tandem {

class CudaContext;

/// Takes the batches of a rank's share of an evaluation through the model: a CPU one after the
/// other, a device while the host brings the following ones.
class EvaluationPass {
 public:
  virtual ~EvaluationPass() = default;
  EvaluationPass(const EvaluationPass&) = delete;
  EvaluationPass& operator=(const EvaluationPass&) = delete;

  /// A batch of which at least one sample counts. A device reads it for DeviceInput::hold(1) calls
  /// or until finish(), and gets its labels unchecked: they must be in [0, classes). Returns what
  /// came out of batches before that has not been returned yet, of this one too where that is
  /// known; a device's losses are rounded to f32 once a batch.
  virtual LossSums take(const Batch& batch) = 0;
  /// Waits for what is under way, and returns what has not been returned yet. Both throw
  /// CommunicationTimeout where a device does not come to an end (parallel/stream_watch.h).
  virtual LossSums finish() = 0;

 protected:
  EvaluationPass() = default;
};

/// The plan, the context, the communicator and the images' memory outlive the pass.
struct EvaluationParts {
  StepPlan& plan;  ///< for evaluation
  AnyContext& context;
  Communicator& communicator;
  RawInput raw;   ///< what batches are where the context is a device; a CPU takes floats
  Tensor images;  ///< a device's memory for the images that it makes of them
};

std::unique_ptr<EvaluationPass> make_evaluation_pass(CpuContext& context,
                                                     const EvaluationParts& parts);
std::unique_ptr<EvaluationPass> make_evaluation_pass(CudaContext& context,
                                                     const EvaluationParts& parts);

}  // namespace tandem
