#pragma once

#include <cstdint>
#include <string>

#include "tensor/shape.h"

namespace tandem {

/// A square sliding window over the rows and columns of an NHWC tensor.
struct Window {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;

  /// floor((extent + 2 padding - dilation (kernel - 1) - 1) / stride) + 1; below 1 where the window
  /// does not fit.
  std::int64_t output_extent(std::int64_t extent) const {
    const std::int64_t span = extent + 2 * padding - dilation * (kernel - 1) - 1;
    return span < 0 ? 0 : span / stride + 1;
  }
  /// The row (or column) of the input on which the window's one stands for the output's one; one
  /// that the input does not have is padding.
  std::int64_t place(std::int64_t output, std::int64_t position) const {
    return output * stride - padding + position * dilation;
  }
  /// "3 stride 2 padding 1 dilation 1".
  std::string text() const;
};

/// The (rows, columns) shape of `window` over `input` with `channels` out channels. Throws
/// InputError that tells the sizes where `input` is no image or the window does not fit it.
Shape windowed_shape(const Window& window, const Shape& input, std::int64_t channels);

/// Whether somewhere all of the window stands on padding, so that it meets nothing of the input.
bool stands_on_padding(const Window& window, const Shape& input, const Shape& output);

/// Throws InputError unless `input` is a batch of images (N, H, W, C) with extents of at least one.
void require_image(const Shape& input);

}  // namespace tandem
