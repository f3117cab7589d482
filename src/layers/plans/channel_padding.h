#pragma once

#include "tensor/tensor.h"

namespace tandem {

class CudaContext;

/// A matrix within a larger one: the first `rows` x `columns` of `padded_rows` x `padded_columns`,
/// both dense. `padded_columns` is a multiple of four.
struct Padding {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t padded_rows = 0;
  std::int64_t padded_columns = 0;

  bool is_none() const { return rows == padded_rows && columns == padded_columns; }
};

/// padded = matrix, and zero beyond it; both of `dtype`, f32, f16 or bf16. Enqueued.
void pad_matrix(CudaContext& context, const Padding& padding, DType dtype, const void* matrix,
                void* padded);
/// matrix = the part of `padded` that is it. Dtypes may differ where the result is f32. Enqueued.
void crop_matrix(CudaContext& context, const Padding& padding, DType padded_dtype,
                 const void* padded, DType dtype, void* matrix);

}  // namespace tandem
