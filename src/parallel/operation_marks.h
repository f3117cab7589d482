#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// Which of a device's operations began last, readable from the host while the device hangs in it:
/// a word of host memory into which the device writes the operation's number. Captured into a CUDA
/// graph, each launch writes anew.
class OperationMarks {
 public:
  OperationMarks();
  ~OperationMarks();
  OperationMarks(const OperationMarks&) = delete;
  OperationMarks& operator=(const OperationMarks&) = delete;

  /// Enqueues that an operation of that label and size begins here. The same label and size are one
  /// operation.
  void enqueue(CUstream_st* stream, std::string_view label, std::int64_t elements);
  /// "all_reduce of gradient bucket 1 of 3 (1,234 elements)", or nothing where none began.
  std::string last() const;

 private:
  struct Operation {
    std::string label;
    std::int64_t elements = 0;
  };

  std::uint32_t number_of(std::string_view label, std::int64_t elements);

  std::vector<Operation> operations_;
  std::uint32_t* word_ = nullptr;         // the host's address
  std::uint32_t* device_word_ = nullptr;  // the device's
};

}  // namespace tandem
