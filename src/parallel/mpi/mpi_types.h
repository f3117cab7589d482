#pragma once

// Between Tandem's types and MPI's. Includes mpi.h: for mpi_*.cpp alone.

#include <mpi.h>

#include <algorithm>
#include <cstdint>

#include "parallel/communicator.h"

namespace tandem {

MPI_Datatype mpi_type(DType dtype);
MPI_Op mpi_op(ReduceOp op);

/// Calls function(address, count) for consecutive pieces of `elements` elements, each at most
/// `longest` long; never for no elements.
template <typename Function>
void for_each_piece(const Tensor& tensor, std::int64_t offset, std::int64_t elements,
                    std::int64_t longest, Function&& function) {
  auto* base = static_cast<std::byte*>(tensor.raw());
  for (std::int64_t done = 0; done < elements; done += longest) {
    const std::int64_t count = std::min(longest, elements - done);
    function(base + static_cast<std::size_t>(offset + done) * size_of(tensor.dtype()),
             static_cast<int>(count));
  }
}

/// One rank's block of `elements` elements as (count(), type()): plain elements, or, where the
/// blocks of all ranks together exceed `longest`, one element of a type that spans the block.
class MpiBlock {
 public:
  MpiBlock(DType dtype, std::int64_t elements, int blocks, std::int64_t longest);
  ~MpiBlock();
  MpiBlock(const MpiBlock&) = delete;
  MpiBlock& operator=(const MpiBlock&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_;
  bool owned_ = false;
};

}  // namespace tandem
