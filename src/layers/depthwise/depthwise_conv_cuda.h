#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/activation.h"
#include "layers/input_norm_cuda.h"
#include "tensor/dtype.h"

/// CUDA's stream, whose handle is a pointer to this.
struct CUstream_st;

// Depthwise convolutions on CUDA devices, NHWC, weights (C, R, S) of the activations' dtype, sums
// in f32. The usual windows have kernels whose threads walk down strips of the image
// (depthwise_strips_cuda.h); the others take any window and are slower. Included by sources only.

namespace tandem::cuda_depthwise {

/// One layer's sizes, in the integers that kernels compute with, and the device's.
struct Problem {
  int batch;
  int rows, columns;  ///< of x
  int out_rows, out_columns;
  int channels;
  int kernel, stride, padding, dilation;
  DType dtype;
  int multiprocessors;
};

/// y = x * weight.
void forward(CUstream_st* stream, const Problem& problem, const void* x, const InputNorm& norm,
             const void* weight, void* y);
/// dx from dy.
void backward_data(CUstream_st* stream, const Problem& problem, const void* dy, const void* weight,
                   void* dx);
/// dw, f32. Blocks leave partial sums in `partials`, of partial_bytes(), which are added in a fixed
/// order.
void backward_weights(CUstream_st* stream, const Problem& problem, const void* x,
                      const InputNorm& norm, const void* dy, float* partials, float* dw);
std::size_t partial_bytes(const Problem& problem);

/// The same for any window.
void forward_any(CUstream_st* stream, const Problem& problem, const void* x, const void* weight,
                 void* y);
void backward_data_any(CUstream_st* stream, const Problem& problem, const void* dy,
                       const void* weight, void* dx);
void backward_weights_any(CUstream_st* stream, const Problem& problem, const void* x,
                          const void* dy, float* partials, float* dw);
std::size_t partial_bytes_any(const Problem& problem);

/// sums[i] = partials[0][i] + partials[1][i] + ..., in an order that depends on `count` alone.
void sum_partials(CUstream_st* stream, int count, int size, const float* partials, float* sums);

}  // namespace tandem::cuda_depthwise
