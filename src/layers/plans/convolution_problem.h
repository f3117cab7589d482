#pragma once

#include <cstdint>
#include <string>

#include "layers/conv2d_options.h"
#include "tensor/precision.h"

namespace tandem {

enum class ConvolutionOperation : std::uint8_t { forward, data_gradient, weight_gradient };

/// One of a layer's three convolutions, wholly described: what a kernel is chosen for.
struct ConvolutionProblem {
  ConvolutionOperation operation = ConvolutionOperation::forward;
  Precision precision = Precision::fp32;
  Window window{};
  std::int64_t groups = 1;
  std::int64_t batch = 1;
  std::int64_t rows = 1, columns = 1, channels = 1;              ///< of x
  std::int64_t out_rows = 1, out_columns = 1, out_channels = 1;  ///< of y
  /// Whether a data gradient is added to what is in its place.
  bool adds = false;

  DType dtype() const { return activation_dtype(precision); }
  std::int64_t pixels() const { return batch * rows * columns; }
  std::int64_t out_pixels() const { return batch * out_rows * out_columns; }
  /// Rows of the weight as a matrix of (K R S) x (C / groups).
  std::int64_t taps() const { return out_channels * window.kernel * window.kernel; }
  std::int64_t group_channels() const { return channels / groups; }
  /// Products that are added up for an element of the result, where none falls on padding.
  std::int64_t sum_terms() const;

  // The two tensors that are read and the one that is written: x, w, y; dy, w, dx; x, dy, dw.

  std::size_t first_bytes() const;
  std::size_t second_bytes() const;
  std::size_t result_bytes() const;
  /// f32 of a weight gradient, else dtype().
  DType result_dtype() const;
  std::int64_t result_elements() const;

  /// One line that differs between any two problems.
  std::string key() const;
};

/// The problem of a layer with these options.
ConvolutionProblem convolution_problem(ConvolutionOperation operation, Precision precision,
                                       const Conv2dOptions& options, const Shape& input,
                                       const Shape& output);

/// "forward", ...
std::string_view name_of(ConvolutionOperation operation);

}  // namespace tandem
