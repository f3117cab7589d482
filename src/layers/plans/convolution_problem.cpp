#include "layers/plans/convolution_problem.h"

#include <fmt/format.h>

#include "base/error.h"

namespace tandem {
namespace {

std::size_t bytes(std::int64_t elements, DType dtype) {
  return static_cast<std::size_t>(elements) * size_of(dtype);
}

}  // namespace

std::size_t ConvolutionProblem::first_bytes() const {
  return operation == ConvolutionOperation::data_gradient
             ? bytes(out_pixels() * out_channels, dtype())
             : bytes(pixels() * channels, dtype());
}

std::size_t ConvolutionProblem::second_bytes() const {
  return operation == ConvolutionOperation::weight_gradient
             ? bytes(out_pixels() * out_channels, dtype())
             : bytes(taps() * group_channels(), dtype());
}

std::size_t ConvolutionProblem::result_bytes() const {
  return bytes(result_elements(), result_dtype());
}

DType ConvolutionProblem::result_dtype() const {
  return operation == ConvolutionOperation::weight_gradient ? DType::f32 : dtype();
}

std::int64_t ConvolutionProblem::result_elements() const {
  switch (operation) {
    case ConvolutionOperation::forward:
      return out_pixels() * out_channels;
    case ConvolutionOperation::data_gradient:
      return pixels() * channels;
    case ConvolutionOperation::weight_gradient:
      return taps() * group_channels();
  }
  throw Error("a convolution of unknown kind");
}

std::int64_t ConvolutionProblem::sum_terms() const {
  switch (operation) {
    case ConvolutionOperation::forward:
      return window.kernel * window.kernel * group_channels();
    case ConvolutionOperation::data_gradient:
      return taps() / groups;
    case ConvolutionOperation::weight_gradient:
      return out_pixels();
  }
  throw Error("a convolution of unknown kind");
}

std::string ConvolutionProblem::key() const {
  return fmt::format("conv {} {} n{} h{} w{} c{} k{} r{} s{} p{} d{} g{}{}", name_of(operation),
                     name_of(precision), batch, rows, columns, channels, out_channels,
                     window.kernel, window.stride, window.padding, window.dilation, groups,
                     adds ? " adds" : "");
}

ConvolutionProblem convolution_problem(ConvolutionOperation operation, Precision precision,
                                       const Conv2dOptions& options, const Shape& input,
                                       const Shape& output) {
  return {.operation = operation,
          .precision = precision,
          .window = options.window,
          .groups = options.groups,
          .batch = input[0],
          .rows = input[1],
          .columns = input[2],
          .channels = input[3],
          .out_rows = output[1],
          .out_columns = output[2],
          .out_channels = output[3]};
}

std::string_view name_of(ConvolutionOperation operation) {
  switch (operation) {
    case ConvolutionOperation::forward:
      return "forward";
    case ConvolutionOperation::data_gradient:
      return "data-gradient";
    case ConvolutionOperation::weight_gradient:
      return "weight-gradient";
  }
  return "?";
}

}  // namespace tandem
