#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

namespace tandem {

/// What a device says of its operations, in the host's memory.
struct OperationWords {
  std::uint32_t last;   ///< the number of the one that began last
  std::uint32_t begun;  ///< how many have begun so far
};

/// What a device writes as an operation begins (parallel/write_mark.cuh); without words nothing.
struct OperationMark {
  OperationWords* words = nullptr;   // the device's address
  std::uint32_t* counter = nullptr;  // in the device's memory: of those that have begun
  std::uint32_t number = 0;
};

/// Enqueues the writing of a mark.
void write_mark(CUstream_st* stream, const OperationMark& mark);

/// Which of a device's operations began last, and how many have, readable from the host while the
/// device hangs in one: words of host memory into which the device writes. Captured into a CUDA
/// graph, each launch writes anew. Operations are of one stream, or ordered otherwise.
class OperationMarks {
 public:
  OperationMarks();
  ~OperationMarks();
  OperationMarks(const OperationMarks&) = delete;
  OperationMarks& operator=(const OperationMarks&) = delete;

  /// What says that an operation of that label and size begins. The same label and size are one
  /// operation. For a kernel to write, or write_mark().
  OperationMark mark(std::string_view label, std::int64_t elements);
  /// Enqueues the writing of mark().
  void enqueue(CUstream_st* stream, std::string_view label, std::int64_t elements);
  /// "all_reduce of gradient bucket 1 of 3 (1,234 elements)", or nothing where none began.
  std::string last() const;
  /// How many have begun, modulo 2^32.
  std::uint32_t begun() const;

 private:
  struct Operation {
    std::string label;
    std::int64_t elements = 0;
  };

  std::uint32_t number_of(std::string_view label, std::int64_t elements);

  std::vector<Operation> operations_;
  OperationWords* words_ = nullptr;         // the host's address
  OperationWords* device_words_ = nullptr;  // the device's
  std::uint32_t* counter_ = nullptr;        // in the device's memory
};

}  // namespace tandem
