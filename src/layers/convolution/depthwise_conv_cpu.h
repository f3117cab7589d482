#pragma once

#include <cstdint>
#include <vector>

#include "layers/convolution/conv2d_cpu.h"

namespace tandem {

/// Depthwise convolutions (each channel with a filter of its own) on NHWC rows. Forward and data
/// gradient are the same gather: an output pixel is the sum over taps of an input pixel times the
/// tap's weights, vectors along the channels, a tile of neighbouring pixels in registers at once.
/// The weight gradient gives each thread channels of its own. No result depends on the number of
/// threads.
class DepthwiseConvolution final : public CpuConvolution {
 public:
  /// One filter a channel, kernels of at most 7 x 7.
  static bool supports(const Conv2dOptions& options, const Shape& input);

  DepthwiseConvolution(CpuContext& context, const Conv2dOptions& options, const Shape& input,
                       const Shape& output, const Mode& mode);

  std::size_t forward_scratch() const override;
  std::size_t backward_scratch() const override;
  void forward(const float* input, const float* weight, const float* bias, float* output,
               std::byte* scratch) override;
  void backward_weights(const float* input, const float* output_gradient, float* weight_gradient,
                        float* bias_gradient, std::byte* scratch) override;
  void backward_data(const float* output_gradient, const float* weight, float* input_gradient,
                     std::byte* scratch) override;

  /// One element of the window that reaches a line of pixels, along one axis: which row (column) of
  /// the filter meets which row (column) of what is gathered.
  struct Tap {
    std::int64_t filter;
    std::int64_t source;
  };
  /// Pixels of an output row, `step` apart, that the same columns of the filter reach; from one to
  /// the next the gathered column moves on by `source_step`.
  struct Run {
    std::int64_t first;
    std::int64_t count;
    std::int64_t step;
    std::int64_t source_step;
    std::vector<Tap> taps;  ///< of the first pixel
  };
  /// Where each pixel of a plane gathers from.
  struct Gather {
    std::int64_t rows = 0, columns = 0;  ///< of what is written
    std::int64_t source_rows = 0, source_columns = 0;
    std::vector<std::vector<Tap>> row_taps;  ///< per row that is written
    std::vector<Run> runs;                   ///< of every row
  };

 private:
  struct Line;

  /// KRSC, one channel a filter, to (R, S, C).
  void transpose_weights(const float* weight, float* transposed) const;
  void gather_rows(const Gather& gather, const float* source, const float* weights,
                   const float* bias, bool add, Activation activation, float* target) const;

  CpuContext* context_;
  Mode mode_;
  Window window_;
  std::int64_t batch_;
  std::int64_t channels_;
  Gather forward_;
  Gather backward_;
};

}  // namespace tandem
