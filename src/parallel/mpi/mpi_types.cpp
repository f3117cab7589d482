#include "parallel/mpi/mpi_types.h"

#include <array>
#include <climits>

#include "base/log.h"
#include "parallel/mpi/mpi_error.h"

namespace tandem {
namespace {

/// A derived type that is freed at the end of its scope; types built from it stay valid.
struct DerivedType {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  DerivedType() = default;
  DerivedType(const DerivedType&) = delete;
  DerivedType& operator=(const DerivedType&) = delete;
  ~DerivedType() {
    if (type != MPI_DATATYPE_NULL && MPI_Type_free(&type) != MPI_SUCCESS) {
      log_error("MPI_Type_free failed");
    }
  }
};

/// `elements` elements in a row: pieces of `longest`, then what is left.
MPI_Datatype spanning_type(DType dtype, std::int64_t elements, std::int64_t longest) {
  const std::int64_t pieces = elements / longest;
  const std::int64_t rest = elements % longest;
  TANDEM_CHECK(pieces <= INT_MAX, "a block of {} elements is beyond what MPI can count", elements);
  DerivedType piece;
  DerivedType body;
  check_mpi(MPI_Type_contiguous(static_cast<int>(longest), mpi_type(dtype), &piece.type),
            "MPI_Type_contiguous");
  check_mpi(MPI_Type_contiguous(static_cast<int>(pieces), piece.type, &body.type),
            "MPI_Type_contiguous");
  const std::array<int, 2> lengths{1, static_cast<int>(rest)};
  const std::array<MPI_Aint, 2> places{
      0, static_cast<MPI_Aint>(pieces * longest * static_cast<std::int64_t>(size_of(dtype)))};
  const std::array<MPI_Datatype, 2> types{body.type, mpi_type(dtype)};
  MPI_Datatype result = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_create_struct(rest > 0 ? 2 : 1, lengths.data(), places.data(), types.data(),
                                   &result),
            "MPI_Type_create_struct");
  check_mpi(MPI_Type_commit(&result), "MPI_Type_commit");
  return result;
}

}  // namespace

MPI_Datatype mpi_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return MPI_FLOAT;
    case DType::f16:
    case DType::bf16:
      return MPI_UINT16_T;  // moved, never reduced
    case DType::u8:
      return MPI_UINT8_T;
    case DType::i32:
      return MPI_INT32_T;
    case DType::i64:
      return MPI_INT64_T;
  }
  throw Error("an element type that MPI is not told about");
}

MPI_Op mpi_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return MPI_SUM;
    case ReduceOp::max:
      return MPI_MAX;
    case ReduceOp::min:
      return MPI_MIN;
  }
  throw Error("a reduction that MPI is not told about");
}

MpiBlock::MpiBlock(DType dtype, std::int64_t elements, int blocks, std::int64_t longest)
    : type_(mpi_type(dtype)) {
  // The sum over ranks counts: MPI libraries pass several ranks' blocks on as one message.
  if (elements <= longest / blocks) {
    count_ = static_cast<int>(elements);
    return;
  }
  type_ = spanning_type(dtype, elements, longest);
  owned_ = true;
}

MpiBlock::~MpiBlock() {
  if (owned_ && MPI_Type_free(&type_) != MPI_SUCCESS) log_error("MPI_Type_free failed");
}

}  // namespace tandem
