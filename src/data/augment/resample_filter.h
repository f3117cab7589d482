#pragma once

#include <cstdint>
#include <vector>

#include "data/augment/resize_passes/resize_passes.h"

namespace tandem {

/// A weighted sum, begun at filter_half, as a value of 0..255. It needs no bounds: weights are not
/// negative and add up to 1 within half a unit each.
constexpr std::int32_t filtered(std::int32_t sum) { return sum >> filter_bits; }

/// Weights of the triangle filter along one axis: for each output position where its inputs begin,
/// and `taps` weights from there (zeros fill up). first + taps never passes the end of the input.
/// `Weight` is float, std::int32_t with filter_bits fractional bits, or std::uint16_t with 16,
/// where one is 65535.
template <typename Weight>
struct TriangleFilter {
  int taps = 0;
  std::vector<int> first;
  std::vector<Weight> weights;

  /// Output positions begin .. begin + count of an axis on which the stretch [low, low + length) of
  /// `in` inputs becomes `out` outputs. Inputs that the stretch does not touch have no weight.
  TriangleFilter(int in, double low, double length, int out, int begin, int count);

  /// Reverses the order of the outputs.
  void mirror();
};

/// Filters rows of pixels (1 or 3 channels) along x, two at a time.
class RowFilter {
 public:
  /// `in` pixels a row become filter.first.size(). `passes` outlive it.
  RowFilter(const TriangleFilter<std::int32_t>& filter, int in, int channels,
            const ResizePasses& passes);

  /// Writes values of 0..255, interleaved like the pixels, and up to output_slack more.
  void apply(const std::uint8_t* in0, const std::uint8_t* in1, std::int32_t* out0,
             std::int32_t* out1);
  static constexpr std::size_t output_slack = 1;

 private:
  void apply_gray(const std::uint8_t* in, std::int32_t* out) const;

  const ResizePasses& passes_;
  int in_;
  int channels_;
  int taps_;
  std::vector<int> first_;
  std::vector<std::int32_t> weights_;  ///< RGB: each four times, one a value of a pixel
  // RGB: as interleaved, so that one multiplication serves both rows.
  std::vector<std::int32_t> pixels_;
};

}  // namespace tandem
