#pragma once

#include <cstdint>

#include "layers/plans/convolution_problem.h"

namespace tandem {

/// A convolution over images of few pixels as one matrix product: images are rows of
/// (pixels x channels) numbers, and the filter is written out as a doubly blocked Toeplitz matrix
/// of (out pixels x out channels) rows and (pixels x channels) columns. Unlike an implicit matrix
/// product it multiplies no border, which is most of what a 3x3 window sees of a 2x2 image; taps
/// that never meet a pixel are not read.
struct ToeplitzFilter {
  std::int32_t rows, columns, channels;              ///< of x
  std::int32_t out_rows, out_columns, out_channels;  ///< of y
  std::int32_t kernel, stride, padding;

  /// Of a problem without dilation and of one group. Extents are below 2^31.
  static ToeplitzFilter of(const ConvolutionProblem& problem) {
    const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
    return {.rows = narrow(problem.rows),
            .columns = narrow(problem.columns),
            .channels = narrow(problem.channels),
            .out_rows = narrow(problem.out_rows),
            .out_columns = narrow(problem.out_columns),
            .out_channels = narrow(problem.out_channels),
            .kernel = narrow(problem.window.kernel),
            .stride = narrow(problem.window.stride),
            .padding = narrow(problem.window.padding)};
  }

  constexpr std::int32_t pixels() const { return rows * columns; }
  constexpr std::int32_t out_pixels() const { return out_rows * out_columns; }

  /// The tap (row x kernel + column) through which `out_pixel` sees `pixel`, or -1. Pixels count
  /// row after row.
  constexpr std::int32_t tap(std::int32_t out_pixel, std::int32_t pixel) const {
    const std::int32_t row = pixel / columns - out_pixel / out_columns * stride + padding;
    const std::int32_t column = pixel % columns - out_pixel % out_columns * stride + padding;
    const bool inside = row >= 0 && row < kernel && column >= 0 && column < kernel;
    return inside ? row * kernel + column : -1;
  }

  /// The pixel that `out_pixel` sees through `tap`, or -1.
  constexpr std::int32_t pixel(std::int32_t out_pixel, std::int32_t tap) const {
    const std::int32_t row = out_pixel / out_columns * stride - padding + tap / kernel;
    const std::int32_t column = out_pixel % out_columns * stride - padding + tap % kernel;
    const bool inside = row >= 0 && row < rows && column >= 0 && column < columns;
    return inside ? row * columns + column : -1;
  }
};

}  // namespace tandem
