#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/plans/convolution_problem.h"
#include "tensor/fast_divisor.h"

namespace tandem {

/// Square blocks of neighbouring pixels as the channels of one pixel: a convolution of few channels
/// becomes one of many, of stride one and without a border.
///
/// The folded pixel (p, q) holds the `block` x `block` pixels whose first is
/// (p stride - padding, q stride - padding), row after row, zero beyond the image; zeros fill the
/// last word. Where the block is as large as the stride ("space to depth"), every pixel lies in one
/// block, and the folded filter has ceil(kernel / stride) taps a side. Where it is as large as the
/// kernel, blocks overlap, and one tap is left ("im2col"). Other blocks make no convolution.
struct PixelFold {
  std::int32_t block;
  std::int32_t kernel, stride, padding;         ///< of the layer
  std::int32_t rows, columns, channels;         ///< of x
  std::int32_t width;                           ///< elements of one row of x
  std::int32_t folded_rows, folded_columns;     ///< of the folded x
  std::int32_t folded_channels, folded_kernel;  ///< of the folded x and filter
  FastDivisor line;                             ///< elements of one row of a block

  /// `word`: the folded channels become a multiple of it. Extents are below 2^31.
  static PixelFold of(const ConvolutionProblem& problem, std::int64_t block, std::int64_t word) {
    const Window& window = problem.window;
    const auto narrow = [](std::int64_t extent) { return static_cast<std::int32_t>(extent); };
    const std::int64_t folded_kernel =
        (window.kernel - block + window.stride - 1) / window.stride + 1;
    const std::int64_t elements = block * block * problem.channels;
    return {.block = narrow(block),
            .kernel = narrow(window.kernel),
            .stride = narrow(window.stride),
            .padding = narrow(window.padding),
            .rows = narrow(problem.rows),
            .columns = narrow(problem.columns),
            .channels = narrow(problem.channels),
            .width = narrow(problem.columns * problem.channels),
            .folded_rows = narrow(problem.out_rows + folded_kernel - 1),
            .folded_columns = narrow(problem.out_columns + folded_kernel - 1),
            .folded_channels = narrow((elements + word - 1) / word * word),
            .folded_kernel = narrow(folded_kernel),
            .line = FastDivisor(block * problem.channels)};
  }

  /// Where an element comes from; a zero where it comes from nowhere.
  struct Source {
    bool exists;
    std::int32_t element;
  };

  /// The place of a folded pixel's channel within its image (rows, columns, channels).
  constexpr Source pixel_source(std::int32_t folded_row, std::int32_t folded_column,
                                std::int32_t channel) const {
    auto block_row = static_cast<std::uint32_t>(channel);
    const auto in_line = static_cast<std::int32_t>(line.split(block_row));
    const std::int32_t top = folded_row * stride - padding;
    const std::int32_t row = top + static_cast<std::int32_t>(block_row);
    const std::int32_t column = (folded_column * stride - padding) * channels + in_line;
    // Beyond the last row of the block are the zeros that fill the word.
    const std::int32_t bottom = std::max(0, std::min(rows, top + block));
    return {.exists = is_below(row, bottom) && is_below(column, width),
            .element = row * width + column};
  }

  /// The place of an element of a folded filter (folded_kernel, folded_kernel, folded_channels)
  /// within the filter (kernel, kernel, channels).
  constexpr Source tap_source(std::int32_t folded_row, std::int32_t folded_column,
                              std::int32_t channel) const {
    auto block_row = static_cast<std::uint32_t>(channel);
    const auto in_line = static_cast<std::int32_t>(line.split(block_row));
    const std::int32_t row = folded_row * stride + static_cast<std::int32_t>(block_row);
    const std::int32_t column = folded_column * stride + in_line / channels;
    return {
        .exists = static_cast<std::int32_t>(block_row) < block && row < kernel && column < kernel,
        .element = (row * kernel + column) * channels + in_line % channels};
  }

  /// The inverse of tap_source().
  constexpr std::int32_t folded_tap(std::int32_t row, std::int32_t column,
                                    std::int32_t channel) const {
    const std::int32_t folded_row = folded_position(row);
    const std::int32_t folded_column = folded_position(column);
    const std::int32_t in_block =
        (row - folded_row * stride) * block + column - folded_column * stride;
    return (folded_row * folded_kernel + folded_column) * folded_channels + in_block * channels +
           channel;
  }

 private:
  /// 0 <= number < limit, in one comparison.
  static constexpr bool is_below(std::int32_t number, std::int32_t limit) {
    return static_cast<std::uint32_t>(number) < static_cast<std::uint32_t>(limit);
  }
  constexpr std::int32_t folded_position(std::int32_t tap) const {
    return folded_kernel == 1 ? 0 : tap / stride;
  }
};

}  // namespace tandem
