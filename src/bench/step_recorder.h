#pragma once

#include <memory>
#include <vector>

#include "device/any_context.h"
#include "train/step/step_observer.h"

namespace tandem {

class CudaContext;

/// A moment of a step: what ended then, and how long after the moment before.
struct StepMoment {
  StepPart part;
  double seconds = 0.0;
};

/// Takes the time of every moment of a step: by the clock on the CPU, by events of the stream on a
/// device, where a captured step then holds them and runs without a host or gaps.
class StepRecorder : public StepObserver {
 public:
  /// The moments of the last step, which is settled; the first one, the start, after 0 seconds.
  virtual std::vector<StepMoment> last_step() = 0;
  /// What recording one moment takes, on a device, by the last step; it is taken off each of them.
  virtual double recording_seconds() const { return 0.0; }
};

/// For steps of at most so many moments. The context outlives it.
std::unique_ptr<StepRecorder> make_step_recorder(AnyContext& context, std::size_t moments);

std::unique_ptr<StepRecorder> make_step_recorder(CpuContext& context, std::size_t moments);
std::unique_ptr<StepRecorder> make_step_recorder(CudaContext& context, std::size_t moments);

}  // namespace tandem
