#include "train/step/device_input.h"

#include <cuda_runtime_api.h>

#include "device/cuda_check.h"
#include "device/cuda_context.h"

namespace tandem {
namespace {

/// Between the current batches, so that each begins as aligned as the first.
std::size_t stride_of(const RawBatchLayout& layout) {
  constexpr std::size_t alignment = 256;
  return (layout.bytes() + alignment - 1) / alignment * alignment;
}

}  // namespace

DeviceInput::DeviceInput(CudaContext& context, const RawBatchLayout& layout, int micro_batches)
    : context_(context), layout_(layout) {
  TANDEM_CHECK(micro_batches >= 1, "a step of {} micro-batches", micro_batches);
  places_.resize(static_cast<std::size_t>(places(micro_batches)));
  const auto count = static_cast<std::size_t>(micro_batches);
  try {
    context.activate();
    TANDEM_CUDA_CHECK(cudaStreamCreateWithFlags(&copying_, cudaStreamNonBlocking));
    for (Place& place : places_) {
      place.memory = DeviceBuffer(context, layout.bytes());
      TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&place.arrived, cudaEventDisableTiming));
      TANDEM_CUDA_CHECK(cudaEventCreateWithFlags(&place.left, cudaEventDisableTiming));
    }
    fixed_ = DeviceBuffer::zeroed(context, count * stride_of(layout));
    context.synchronize();
  } catch (...) {
    release();
    throw;
  }
  for (std::size_t i = 0; i < count; ++i) {
    current_.push_back(layout.view(fixed_.data() + i * stride_of(layout)));
  }
}

DeviceInput::~DeviceInput() { release(); }

// What fails here failed before, and was said then.
void DeviceInput::release() noexcept {
  (void)cudaSetDevice(context_.device().index);
  if (copying_ != nullptr) (void)cudaStreamSynchronize(copying_);
  (void)cudaStreamSynchronize(context_.stream());
  for (const Place& place : places_) {
    if (place.left != nullptr) (void)cudaEventDestroy(place.left);
    if (place.arrived != nullptr) (void)cudaEventDestroy(place.arrived);
  }
  if (copying_ != nullptr) (void)cudaStreamDestroy(copying_);
}

void DeviceInput::upload(const RawBatchView& batch) {
  TANDEM_CHECK(layout_.fits(batch), "a raw batch of {} pixels in {} bytes, of another layout",
               batch.pixels.shape().text(), batch.memory.size());
  const auto most = static_cast<std::int64_t>(places_.size());
  TANDEM_CHECK(uploaded_ - advanced_ < most, "{} batches are uploaded and not yet used", most);
  context_.activate();
  Place& place = place_of(uploaded_);
  // An event that was never recorded is done. The host's memory of the batch before in this place
  // is free from here on.
  TANDEM_CUDA_CHECK(cudaEventSynchronize(place.arrived));
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(copying_, place.left));
  TANDEM_CUDA_CHECK(cudaMemcpyAsync(place.memory.data(), batch.memory.data(), batch.memory.size(),
                                    cudaMemcpyHostToDevice, copying_));
  TANDEM_CUDA_CHECK(cudaEventRecord(place.arrived, copying_));
  ++uploaded_;
}

void DeviceInput::advance() {
  TANDEM_CHECK(advanced_ < uploaded_, "no batch is uploaded");
  context_.activate();
  Place& place = place_of(advanced_);
  const RawBatchView& micro = current_[static_cast<std::size_t>(advanced_) % current_.size()];
  cudaStream_t stream = context_.stream();
  TANDEM_CUDA_CHECK(cudaStreamWaitEvent(stream, place.arrived));
  TANDEM_CUDA_CHECK(cudaMemcpyAsync(micro.memory.data(), place.memory.data(), layout_.bytes(),
                                    cudaMemcpyDeviceToDevice, stream));
  TANDEM_CUDA_CHECK(cudaEventRecord(place.left, stream));
  ++advanced_;
}

}  // namespace tandem
