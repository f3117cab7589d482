#include <cuda_runtime_api.h>

#include "base/text.h"
#include "device/cuda_check.h"
#include "parallel/operation_marks.h"

namespace tandem {
namespace {

/// Keeps the table, which is searched by each call, short where labels go on changing.
constexpr std::size_t most_operations = 1024;

__global__ void write_kernel(volatile std::uint32_t* word, std::uint32_t number) {
  *word = number;
  __threadfence_system();
}

}  // namespace

void write_mark(CUstream_st* stream, const OperationMark& mark) {
  if (mark.word == nullptr) return;
  write_kernel<<<1, 1, 0, stream>>>(mark.word, mark.number);
  TANDEM_CUDA_CHECK_LAUNCH();
}

OperationMarks::OperationMarks() {
  void* memory = nullptr;
  TANDEM_CUDA_CHECK(
      cudaHostAlloc(&memory, sizeof(std::uint32_t), cudaHostAllocMapped | cudaHostAllocPortable));
  word_ = static_cast<std::uint32_t*>(memory);
  *word_ = 0;
  void* device = nullptr;
  TANDEM_CUDA_CHECK(cudaHostGetDevicePointer(&device, memory, 0));
  device_word_ = static_cast<std::uint32_t*>(device);
}

// What fails here failed before, and was said then.
OperationMarks::~OperationMarks() { (void)cudaFreeHost(word_); }

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
  return {device_word_, number_of(label, elements)};
}

void OperationMarks::enqueue(CUstream_st* stream, std::string_view label, std::int64_t elements) {
  write_mark(stream, mark(label, elements));
}

std::string OperationMarks::last() const {
  const std::uint32_t number = *static_cast<const volatile std::uint32_t*>(word_);
  if (number == 0 || number > operations_.size()) return {};
  const Operation& operation = operations_[number - 1];
  return fmt::format("all_reduce{}{} ({} elements)", operation.label.empty() ? "" : " of ",
                     operation.label, format_count(operation.elements));
}

}  // namespace tandem
