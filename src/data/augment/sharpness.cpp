#include "data/augment/sharpness.h"

#include <vector>

#include "base/error.h"
#include "data/fused.h"

namespace tandem {
namespace {

/// The middle row of three, from its `begin`-th value to its `end`-th; pixels are `channels`
/// values. `sums` holds the columns' sums.
void sharpen_row(const std::uint8_t* const rows[3], std::size_t channels, std::size_t count,
                 double weight, std::vector<std::uint16_t>& sums, std::uint8_t* out) {
  for (std::size_t i = 0; i < count; ++i) {
    sums[i] = static_cast<std::uint16_t>(rows[0][i] + rows[1][i] + rows[2][i]);
  }
  constexpr std::uint16_t total = 13;  // of the filter's weights
  const std::uint8_t* middle = rows[1];
  for (std::size_t i = channels; i < count - channels; ++i) {
    const auto sum = static_cast<std::uint16_t>(sums[i - channels] + sums[i] + sums[i + channels] +
                                                4 * middle[i]);
    // Thirteenths have no halves: the rounding of the exact quotient.
    const auto blurred = static_cast<std::uint16_t>((2 * sum + total) / (2 * total));
    const auto difference = static_cast<double>(blurred - middle[i]);
    // One rounding to float32, as in fused().
    out[i] = to_level(static_cast<float>(weight * difference + static_cast<double>(middle[i])));
  }
}

}  // namespace

void adjust_sharpness(const Image& image, double factor, Image& out) {
  TANDEM_CHECK(&image != &out, "an image is not sharpened in place");
  out = image;
  if (image.height <= 2 || image.width <= 2) return;
  const auto channels = static_cast<std::size_t>(image.channels);
  const std::size_t stride = static_cast<std::size_t>(image.width) * channels;
  const auto weight = static_cast<double>(static_cast<float>(1.0 - factor));
  std::vector<std::uint16_t> sums(stride);
  for (std::size_t y = 1; y + 1 < static_cast<std::size_t>(image.height); ++y) {
    const std::uint8_t* middle = image.pixels.data() + y * stride;
    const std::uint8_t* const rows[3]{middle - stride, middle, middle + stride};
    sharpen_row(rows, channels, stride, weight, sums, out.pixels.data() + y * stride);
  }
}

}  // namespace tandem
