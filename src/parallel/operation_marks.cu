#include <cuda_runtime_api.h>

#include "base/text.h"
#include "device/cuda_check.h"
#include "parallel/operation_marks.h"
#include "parallel/write_mark.cuh"

namespace tandem {
namespace {

/// Keeps the table, which is searched by each call, short where labels go on changing.
constexpr std::size_t most_operations = 1024;

__global__ void write_kernel(OperationMark mark) {
  write_mark(mark);
  __threadfence_system();
}

}  // namespace

void write_mark(CUstream_st* stream, const OperationMark& mark) {
  if (mark.words == nullptr) return;
  write_kernel<<<1, 1, 0, stream>>>(mark);
  TANDEM_CUDA_CHECK_LAUNCH();
}

OperationMarks::OperationMarks() {
  void* memory = nullptr;
  TANDEM_CUDA_CHECK(
      cudaHostAlloc(&memory, sizeof(OperationWords), cudaHostAllocMapped | cudaHostAllocPortable));
  words_ = static_cast<OperationWords*>(memory);
  *words_ = {};
  void* device = nullptr;
  TANDEM_CUDA_CHECK(cudaHostGetDevicePointer(&device, memory, 0));
  device_words_ = static_cast<OperationWords*>(device);
  void* counter = nullptr;
  TANDEM_CUDA_CHECK(cudaMalloc(&counter, sizeof(std::uint32_t)));
  TANDEM_CUDA_CHECK(cudaMemset(counter, 0, sizeof(std::uint32_t)));
  TANDEM_CUDA_CHECK(cudaStreamSynchronize(nullptr));  // other streams do not wait for that one
  counter_ = static_cast<std::uint32_t*>(counter);
}

// What fails here failed before, and was said then.
OperationMarks::~OperationMarks() {
  (void)cudaFree(counter_);
  (void)cudaFreeHost(words_);
}

std::uint32_t OperationMarks::number_of(std::string_view label, std::int64_t elements) {
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].elements == elements && operations_[i].label == label) {
      return static_cast<std::uint32_t>(i + 1);
    }
  }
  if (operations_.size() == most_operations) return 0;
  operations_.push_back({std::string(label), elements});
  return static_cast<std::uint32_t>(operations_.size());
}

OperationMark OperationMarks::mark(std::string_view label, std::int64_t elements) {
  return {device_words_, counter_, number_of(label, elements)};
}

void OperationMarks::enqueue(CUstream_st* stream, std::string_view label, std::int64_t elements) {
  write_mark(stream, mark(label, elements));
}

std::string OperationMarks::last() const {
  const std::uint32_t number = static_cast<const volatile OperationWords*>(words_)->last;
  if (number == 0 || number > operations_.size()) return {};
  const Operation& operation = operations_[number - 1];
  return fmt::format("all_reduce{}{} ({} elements)", operation.label.empty() ? "" : " of ",
                     operation.label, format_count(operation.elements));
}

std::uint32_t OperationMarks::begun() const {
  return static_cast<const volatile OperationWords*>(words_)->begun;
}

}  // namespace tandem
