#pragma once

#include <cstdint>

#include "layers/input_norm_cuda.h"
#include "tensor/tensor.h"

struct CUstream_st;

// Maxima of 2x2 and 3x3 windows, as kernels whose threads walk down strips of the image: what
// windows one below the other share is read, and compared, once. Included by sources only.

namespace tandem::cuda_max_pool {

/// One layer's sizes and the device's.
struct Problem {
  std::int64_t batch;
  std::int64_t rows, columns;  ///< of x
  std::int64_t out_rows, out_columns;
  std::int64_t channels;
  std::int64_t kernel, stride, padding;
  int multiprocessors;

  /// Whether the functions below take it: 3x3 windows of stride 1 and 2, 2x2 ones of stride 2.
  bool has_strips() const;
};

/// y of x, or of what `norm` makes of it (of 3x3 windows of stride 2 and eight channels or a
/// multiple, with ReLU); and unless `taken` is null which element of its window each maximum is:
/// the first of equal ones, and the first NaN before all numbers.
void forward(CUstream_st* stream, const Problem& problem, const Tensor& x, const InputNorm& norm,
             const Tensor& y, std::uint8_t* taken);
/// dx, of which each element sums what the windows over it that took it give.
void backward(CUstream_st* stream, const Problem& problem, const Tensor& dy,
              const std::uint8_t* taken, const Tensor& dx);

}  // namespace tandem::cuda_max_pool
