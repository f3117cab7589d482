#include "device/cuda_context.h"
#include "parallel/stream_watch.h"
#include "train/evaluation_input.h"
#include "train/step/device_input.h"

namespace tandem {
namespace {

class UploadedInput final : public EvaluationInput {
 public:
  UploadedInput(CudaContext& context, const RawInput& raw, const Tensor& images)
      : context_(context), spec_(raw.spec), input_(context, raw.layout), images_(images) {}

  View put(const Batch& batch) override {
    input_.upload(batch.raw);
    input_.advance();
    enqueue_input(context_, input_.current(), spec_, images_);
    return {images_, input_.current().labels};
  }

 private:
  CudaContext& context_;
  InputSpec spec_;
  DeviceInput input_;
  Tensor images_;
};

}  // namespace

std::unique_ptr<EvaluationInput> make_evaluation_input(CudaContext& context, const RawInput& raw,
                                                       const Tensor& images) {
  return std::make_unique<UploadedInput>(context, raw, images);
}

void wait_for_layers(CudaContext& context, Communicator& communicator) {
  wait_for_device(communicator, context, "the evaluation of a batch");
}

}  // namespace tandem
