#pragma once

#include <memory>

#include "data/batch.h"
#include "device/any_context.h"
#include "parallel/communicator.h"
#include "train/step/raw_input.h"

namespace tandem {

class CudaContext;

/// Brings an evaluation's batches to where a context's kernels read them: a CPU's stay where they
/// are, a device gets raw ones and makes its images of them.
class EvaluationInput {
 public:
  virtual ~EvaluationInput() = default;
  EvaluationInput(const EvaluationInput&) = delete;
  EvaluationInput& operator=(const EvaluationInput&) = delete;

  struct View {
    Tensor images;  ///< (B, height, width, C) of the activations' dtype
    Tensor labels;
  };
  /// On a device only enqueued: the batch must stay as it is until the context has come so far. The
  /// view lasts until the following call and is read by what is enqueued before that.
  virtual View put(const Batch& batch) = 0;

 protected:
  EvaluationInput() = default;
};

/// A device takes raw batches as `raw` says and makes them into `images`, in its memory; the CPU
/// takes batches of floats and needs neither.
std::unique_ptr<EvaluationInput> make_evaluation_input(CpuContext& context, const RawInput& raw,
                                                       const Tensor& images);
std::unique_ptr<EvaluationInput> make_evaluation_input(CudaContext& context, const RawInput& raw,
                                                       const Tensor& images);

/// Waits for what an evaluation has enqueued in the context, as long as ranks wait for one another
/// (parallel/stream_watch.h); on a CPU nothing is left to wait for. Throws CommunicationTimeout.
void wait_for_layers(CpuContext& context, Communicator& communicator);
void wait_for_layers(CudaContext& context, Communicator& communicator);

}  // namespace tandem
